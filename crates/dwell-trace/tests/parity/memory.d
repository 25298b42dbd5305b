# Structures, unions, bit-fields, pointers, variables of the program by name, memory.

P:look:entry { trace(args[0]->c); trace(args[0]->uc); }

P:look:entry { trace(args[0]->s); trace(args[0]->us); }

P:look:entry { trace(args[0]->i); trace(args[0]->u); }

P:look:entry { trace(args[0]->l); trace(args[0]->ul); }

P:look:entry { trace(args[0]->low); trace(args[0]->middle); trace(args[0]->high); }

P:look:entry { trace((int)args[0]->color); trace(args[0]->color == GREEN); }

P:look:entry { trace(stringof(args[0]->name)); }

P:look:entry { trace(copyinstr((uintptr_t)args[0]->text)); }

P:look:entry { trace(stringof(args[0]->text)); }

P:look:entry { trace(args[0]->in[0].tag); trace(args[0]->in[2].flags); }

P:look:entry { trace(args[0]->either.whole); trace(args[0]->either.bytes[1]); }

P:look:entry { trace(args[0]->next->i); trace(args[0]->next->in[2].tag); trace(stringof(args[0]->next->name)); }

P:look:entry { trace(args[0]->next->next == NULL); trace(args[0]->next != 0); }

P:look:entry { trace(args[0]->yes); }

P:look:entry /args[0]->in[1].tag < 0/ { trace(args[0]->in[1].tag); }

P:look:entry { @[args[0]->s] = sum(args[0]->i); }

P:look:entry { @[stringof(args[0]->name), args[0]->low] = count(); }

P:look:entry { trace(sizeof(struct item)); trace(sizeof(args[0]->name)); trace(offsetof(struct item, text)); }

P:look:entry { trace((uintptr_t)&args[0]->text - (uintptr_t)args[0]); }

P:look:entry { this->p = args[0]; trace(this->p->i); trace(this->p->next->s); }

P:look:entry { self->p = args[0]; } P:look:return { trace(self->p->uc); self->p = 0; }

P:look:entry { trace(*(int *)(arg0 + offsetof(struct item, i))); }

P:look:entry { trace(*(uint8_t *)arg0); trace(*(int16_t *)(arg0 + 2)); }

P:look:entry { trace(((char *)args[0]->name)[2]); trace(args[0]->name[5]); }

P:look:entry { trace(&args[0]->in[2] - &args[0]->in[0]); }

P:look:entry { tracemem(copyin(arg0, 32), 32); }

P:look:entry { tracemem(args[0]->name, 16); }

P:look:entry { this->copy = (struct item *)copyin(arg0, sizeof(struct item)); trace(this->copy->us); trace(this->copy->high); }

P:look:entry { this->b = (uint8_t *)alloca(16); copyinto(arg0, 16, this->b); trace(this->b[1]); this->b[1] = 7; trace(this->b[1]); }

P:look:entry { this->b = (char *)alloca(8); bcopy(copyin(arg0, 8), this->b, 8); trace(*(uint64_t *)this->b); }

struct mine { int a; char b; short c; }; P:look:entry { this->m = (struct mine *)alloca(8); this->m->a = args[0]->i; this->m->b = 3; this->m->c = -1; trace(this->m->a); trace(this->m->b); trace(this->m->c); }

struct flags { unsigned int low : 4; int high : 12; }; P:look:entry { this->f = (struct flags *)alloca(4); this->f->low = args[0]->low; this->f->high = args[0]->middle; trace(this->f->low); trace(this->f->high); }

typedef struct pair { int64_t x; int64_t y; } pair_t; P:look:entry { this->q = (pair_t *)alloca(sizeof(pair_t)); this->q->y = arg0; trace(this->q->x); trace(this->q->y == arg0); }

P:look:entry { trace(`counter); }

P:look:entry { trace(`table[0]); trace(`table[2]); trace(`table[3] + 1); }

P:look:entry { trace(`kept.i); trace(stringof(`kept.name)); trace(`kept.in[2].tag); }

P:look:entry { trace(stringof(`motto)); }

P:look:entry { trace(parity`counter); trace(&`kept == args[0]->next); }

P:look:entry /`counter > 10/ { @[`table[1]] = count(); }

P:look:entry { print(args[0]->in[1]); }

P:look:entry { print(*args[0]); }

P:look:entry { trace(copyin(arg0, 4) != 0); trace(*(uint32_t *)copyin(arg0 + 8, 4)); }

P:speak:entry { trace(*(char *)arg0); trace(((char *)arg0)[0] == '/'); }

P:speak:entry { trace(copyinstr(arg0, 5)); }

P:look:entry { trace(args[0]->i + args[0]->c * args[0]->s - args[0]->u); }

P:look:entry { trace((int64_t)args[0]->u << 4); trace(args[0]->ul >> 60); trace(args[0]->l >> 60); }

struct point { int x; int y; }; struct point where; P:look:entry { where.x = args[0]->i; where.y++; trace(where.x); trace(where.y); }

struct both { int x; int y; }; translator struct both < struct item *I > { x = I->i; y = I->s; }; P:look:entry { trace(xlate <struct both *> (args[0])->x); trace(xlate <struct both *> (args[0])->y); }

# Sizes that are computed where the probe fires.

P:look:entry { trace(copyinstr((uintptr_t)args[0]->text, args[0]->low)); }

P:look:entry { trace(copyinstr((uintptr_t)args[0]->text, arg0)); }

P:look:entry { this->n = args[0]->low & 7; trace(stringof(copyin((uintptr_t)args[0]->text, this->n))); }

P:look:entry { this->n = sizeof(struct item) + args[0]->low - args[0]->low; tracemem(copyin(arg0, this->n), 32); }

P:look:entry { this->n = (args[0]->low & 7) + 1; this->b = (char *)alloca(this->n); copyinto(arg0 + offsetof(struct item, name), this->n, this->b); trace(stringof(this->b)); }

P:look:entry { this->n = (args[0]->low & 7) + 1; this->b = (char *)alloca(16); bcopy(args[0]->name, this->b + 16 - this->n, this->n); trace(this->b[15]); }

P:look:entry { this->n = (args[0]->low & 3) + 1; this->b = (char *)alloca(4); copyinto(arg0, this->n + 4096, this->b); trace(1); } ERROR { trace(arg4); }

P:look:entry { trace(*(char *)copyin(arg0, arg0)); } ERROR { trace(arg4); }
