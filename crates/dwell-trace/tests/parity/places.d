# Arguments, registers, returns, instructions, static probes; several clauses for a place.

P:wide:entry { trace(arg0); trace(arg1); trace(arg2); trace(arg3); trace(arg4); trace(arg5); }

P:wide:entry { trace(arg6); trace(arg7); }

P:narrow:entry { trace((int)arg4); trace((unsigned int)arg5); }

P:narrow:entry { trace(args[0]); trace(args[1]); trace(args[2]); }

P:narrow:entry { trace(args[3]); trace(args[4]); trace(args[5]); }

P:wide:entry { trace(args[0] + args[2]); trace(args[1] > 5); trace(args[7]); }

P:as_char:return { trace((int8_t)arg1); }

P:as_char:return { trace((char)args[1]); }

P:as_ushort:return { trace((uint16_t)arg1); }

P:as_text:return { trace(copyinstr(arg1)); }

P:as_text:return /copyinstr(arg1) == "odd"/ { @ = count(); }

P:wide:return { trace(arg1); trace(arg0); }

P:early:return { trace((int)arg1); }

P:early:return { @[(int)arg1] = count(); }

P:early:entry, P:early:return { @[probename] = count(); }

P:recurse:entry { self->depth++; trace(self->depth); } P:recurse:return { trace(self->depth); self->depth--; }

P:recurse:entry { self->in[arg0] = arg0 + 100; } P:recurse:return { this->n = (int)arg1; @[this->n] = count(); }

P:recurse:entry { @ = quantize(arg0); } P:recurse:return { @r = sum((int)arg1); }

P:look:entry { trace(uregs[R_RDI] == arg0); trace(uregs[R_SP] != 0); }

P:look:entry { trace(uregs[R_SP]); }

P:wide:entry { trace(uregs[R_RSI]); trace(uregs[R_R8]); trace(uregs[R_R9]); trace(uregs[R_RCX]); trace(uregs[R_RDX]); }

P:wide:return { trace(uregs[R_RAX]); }

P:narrow:0 { trace((int8_t)arg0); }

P:early:2 { trace((int)arg0); trace(uregs[R_RDI] & 0xffffffff); }

P:recurse:0, P:recurse:entry { @[probename] = count(); }

P:speak:entry { trace(probeprov == "pid"); trace(probemod); trace(probefunc); trace(probename); }

P:[elw]*:entry { @[probefunc] = count(); }

P:a*:entry, P:a*:return { @[probefunc, probename] = count(); }

P:early:entry { trace(1); } P:early:entry { trace(2); } P:early:entry /arg0 & 1/ { trace(3); }

P:early:entry { this->a = arg0; } P:early:entry { trace((int)this->a); }

P:early:entry { first++; } P:early:return { second++; } END { trace(first); trace(second); }

P:early:entry { trace(ucaller); }

P:look:entry { trace(caller); trace(ipl); }

P:look:entry { trace(pid); trace(tid); trace(pid == tid); }

P:look:entry { trace(uid); trace(gid); }

P:look:entry { trace(execname); }

P:look:entry { trace(id); trace(epid); trace(errno); }

P:early:entry { trace(epid); } P:early:entry { trace(epid); }

P:look:entry { trace(timestamp > 0); trace(timestamp == timestamp); trace(walltimestamp > 1000000000); }

P:look:entry { self->t = timestamp; } P:look:return /self->t/ { trace(timestamp >= self->t); self->t = 0; }

P:look:entry { trace(cpu >= 0); trace(cpu == curcpu->cpu_id); }

parity$target:::numbers { trace(arg0); trace(arg1); trace(arg2); trace(arg3); }

parity$target:::numbers { trace(arg4); trace(arg5); trace(arg6); }

parity$target:::numbers { trace((int)arg0 + (int)arg1); }

parity$target:::numbers /(int)arg0 > 0/ { @[(int)arg0] = sum(arg3); }

parity$target:::text { trace(copyinstr(arg0)); trace((int)arg1); }

parity$target:::text { @[strlen(copyinstr(arg0))] = count(); }

parity$target:::none { @ = count(); }

parity$target:::none { trace(probeprov == strjoin("parity", lltostr(pid))); trace(probename); trace(probefunc); }

parity$target:::guarded { trace(arg1); trace(arg2); }

parity$target:::guarded { trace(((struct item *)arg0)->i); }

parity$target::: { @[probename] = count(); }

parity$target:::guarded { @[`counter] = count(); } P:probes:return { trace(`counter); }

P:probes:entry { self->in = 1; } parity$target:::numbers /self->in/ { @ = count(); } P:probes:return { self->in = 0; }

parity$target:::numbers { trace(uregs[R_SP]); }
