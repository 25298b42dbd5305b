# Variables of the script, thread and clause; arrays; conditions; speculation; errors.

BEGIN { n = 5; } P:early:entry { n += arg0; trace(n); } END { trace(n); }

P:early:entry { calls++; } P:recurse:entry { trace(calls); }

int least; P:early:entry { total += (int)arg0; least = (int)arg0 < least ? (int)arg0 : least; } END { trace(total); trace(least); }

P:early:entry { this->a = (int)arg0; this->b = this->a * 2; this->c = this->a + this->b; trace(this->c); }

P:early:entry { self->a = (int)arg0; self->b += self->a; trace(self->b); }

P:early:entry { self->x = 1; self->x = 0; trace(self->x); }

P:early:entry { self->n = arg0; } P:early:return /self->n/ { @[(int)self->n] = sum((int)arg1); self->n = 0; }

P:early:entry { a[(int)arg0]++; } END { trace(a[0]); trace(a[-1]); trace(a[5]); trace(a[100]); }

P:early:entry { a[(int)arg0 & 3] += arg0; } END { trace(a[0]); trace(a[1]); trace(a[2]); trace(a[3]); }

P:early:entry { a[(int)arg0, probefunc] = (int)arg0 * 3; } END { trace(a[2, "early"]); trace(a[2, "late"]); }

int n; P:early:entry { a[1] = arg0; a[1] = 0; n = n + a[1] + 1; } END { trace(n); }

P:wide:entry { a[arg0, arg3, (int8_t)arg0] = arg3 + 1; trace(a[arg0, arg3, (int8_t)arg0]); }

P:wide:entry { self->a[arg3] = arg0; trace(self->a[arg3]); trace(self->a[arg3 - 1]); }

P:wide:entry { self->a[arg3 & 3, "x"]++; trace(self->a[arg3 & 3, "x"]); }

int64_t by[string]; P:speak:entry { by[copyinstr(arg0)] += arg1; } END { trace(by["a"]); trace(by["hello"]); }

string of[int]; P:speak:entry { of[(int)arg1] = copyinstr(arg0); trace(of[(int)arg1]); of[(int)arg1] = 0; trace(of[(int)arg1]); }

self int deep; P:recurse:entry { self->deep = self->deep + 1; trace(self->deep); } P:recurse:return { self->deep = self->deep - 1; }

this int16_t cut; P:wide:entry { this->cut = arg0; trace(this->cut); }

P:early:entry { if ((int)arg0 > 7) { trace(1); } else { trace(2); } }

P:early:entry { if ((int)arg0 > 7) { if (arg0 & 1) { trace(1); } else { trace(2); } } else if ((int)arg0 > 3) { trace(3); } }

P:early:entry { if (arg0 & 1) { odd++; } else { @even = count(); } } END { trace(odd); }

P:early:entry { if (arg0 & 1) printf("odd %d", arg0); }

BEGIN { trace("begin"); } END { trace("end"); } P:early:entry { @ = count(); }

BEGIN { x = 3; y = x * 2; } BEGIN { trace(x + y); } P:early:entry { @ = sum(x); }

P:early:entry { x = arg0; } P:early:return { x = -x; } P:recurse:entry { trace(x); }

int n; P:early:entry { trace(n = n + 2); trace(n++ + ++n); }

P:early:entry { trace(10 / (int)arg0); }

P:early:entry { trace(10 % (int)arg0); } ERROR { trace(arg4); trace(arg2); }

P:early:entry { trace(*(int *)arg0); }

P:early:entry { trace(*(int *)0x1234); } ERROR { trace(arg1); trace(arg4); trace(arg5); }

P:early:entry { trace(copyinstr(8)); } ERROR { @[arg4, arg5] = count(); }

P:early:entry / *(char *)1 == 2/ { trace(1); }

P:early:entry { trace(1); trace(*(int *)4); trace(2); } P:early:entry { trace(3); }

P:early:entry { @[*(int *)arg0] = count(); @fine = count(); }

P:early:entry { this->p = (char *)0x10; *this->p = 1; } ERROR { trace(arg4); }

P:early:entry { this->n = (int)arg0; trace(5 / this->n); } ERROR { errors++; } END { trace(errors); }

P:early:entry { self->s = speculation(); speculate(self->s); trace((int)arg0); } P:early:return /(int)arg1 > 10/ { commit(self->s); self->s = 0; } P:early:return /self->s/ { discard(self->s); self->s = 0; }

P:early:entry { s = speculation(); } P:early:entry { speculate(s); printf("%d", arg0); } P:early:return { commit(s); }

#pragma D option nspec=3
P:recurse:entry { self->s[arg0] = speculation(); } P:recurse:entry { trace(self->s[arg0] != 0); }

P:recurse:entry { trace(speculation() != 0); }

P:wide:entry /arg3 == 4/ { exit(3); } P:wide:entry { trace(arg3); }

P:early:entry { calls++; } P:early:entry /calls == 5/ { exit(0); } P:early:return { @ = count(); }

uint64_t began; P:look:entry { began = timestamp; } P:look:return { trace(began != 0); trace(timestamp >= began); }

#pragma D option dynvarsize=64k
P:wide:entry { a[arg3] = arg0; } END { trace(a[0]); trace(a[20]); }

P:wide:entry { print(arg0); print((int8_t)arg0); }

P:speak:entry { a[copyinstr(arg0), arg1, arg1 & 1] = 1; n += a[copyinstr(arg0), arg1, arg1 & 1]; } END { trace(n); }

P:early:entry { printf("%d %x %c", arg0, arg0, 65); printf("%s", probefunc); }

P:early:entry { trace(rand() >= 0); trace(speculation() >= 0); }

P:early:entry { chars["x"] = 'a'; chars["x"]++; } END { trace(chars["x"]); }

P:early:entry { }

int a[5]; P:early:entry { this->i = (uint64_t)arg0 % 5; a[this->i] += arg0; trace(a[this->i]); } END { trace(a[0]); trace(a[4]); }

struct bits { int a : 3; unsigned int b : 7; long c : 40; }; struct bits v;
P:early:entry { v.a = arg0; v.b = arg0 + 100; v.c = -arg0; v.b++; trace(v.a); trace(v.b); trace(v.c); }

struct two { int x; char n[4]; }; struct two one; struct two other;
P:early:entry { one.x = arg0; one.n[arg0 & 3] = 65; other = one; other.x++; made = other; trace(one.x); trace(other.x); trace(made.x); }

this int v[4]; P:early:entry { this->v[arg0 & 3] = arg0; this->v[3 - (arg0 & 3)]--; trace(this->v[0]); trace(this->v[3]); }

P:early:entry { speculate(0); trace(1); } P:early:entry { speculate(7); n++; } END { trace(n); }

P:look:entry { self->s = *(struct item *)arg0; trace(self->s.i); trace(self->s.in[1].tag); trace(self->s.color); self->s.i = 5; trace(self->s.i); trace(self->s.c); trace(self->s.name); }

P:look:entry { self->s = *(struct item *)arg0; } P:look:return /self->s.i/ { trace(self->s.l); self->s = 0; trace(self->s.l); trace(self->s.i); }

P:look:entry { a[1] = *(struct item *)arg0; trace(a[1].i); trace(a[1].in[2].tag); trace(a[1].name); a[1].us = 9; trace(a[1].us); trace(a[1].s); a[2].l = 7; trace(a[2].l); trace(a[2].i); a[1] = 0; trace(a[1].i); }

P:look:entry { this->s = *(struct item *)arg0; a[arg0, "x"] = this->s; b = a[arg0, "x"]; trace(b.i); a[1, "y"].in[1] = b.in[0]; trace(a[1, "y"].in[1].tag); trace(a[1, "y"].in[2].tag); trace(a[arg0, "x"].in[0]); }

P:look:entry { self->n[arg0] = *(struct item *)arg0; self->n[arg0].u++; self->n[arg0].l += 3; trace(self->n[arg0].u); trace(self->n[arg0].l); this->i = self->n[arg0].in[1]; trace(this->i.flags); self->m = this->i; trace(self->m); }

struct pair { char a; struct { int b; union { long c; char d[3]; struct { short e; short f; }; }; }; }; struct pair p; P:early:entry { trace(offsetof(struct pair, b)); trace(offsetof(struct pair, c)); trace(offsetof(struct pair, f)); p.c = 0x1122334455667788; trace(p.f); p.d[1] = 1; trace(p.c); q[1] = p; q[1].f = 7; trace(q[1].c); trace(sizeof (struct pair)); }

P:early:entry { i = (int)arg0; i += i++ + --i + ++i - ++i * i; trace(i); i -= i++ * 3; trace(i); }

P:speak:entry { trace(strtok("abcXYZabc", "abc")); trace(strtok(NULL, "Z")); trace(strtok(NULL, "c")); }
