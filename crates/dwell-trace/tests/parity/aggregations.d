# Aggregations: every function, every kind of key.

P:wide:entry { @ = count(); }

P:wide:entry { @ = sum(arg0); }

P:wide:entry { @ = sum((int8_t)arg0); }

P:wide:entry { @ = sum((uint32_t)arg0); }

P:wide:entry { @ = min(arg0); @b = min((uint64_t)arg0); }

P:wide:entry { @ = max(arg0); @b = max((uint64_t)arg0); }

P:narrow:entry { @ = min((int8_t)arg0); @b = max((uint8_t)arg0); }

P:narrow:entry { @ = avg((int16_t)arg2); }

P:narrow:entry { @ = avg((uint16_t)arg2); @b = avg(7); }

P:narrow:entry { @ = stddev((int32_t)arg4); }

P:wide:entry { @ = stddev(arg0 / 1000000); }

P:wide:entry { @ = quantize(arg0); }

P:wide:entry { @ = quantize(arg0, 3); }

P:narrow:entry { @ = quantize((uint32_t)arg5); }

P:narrow:entry { @ = lquantize((int16_t)arg2, -100, 100, 10); }

P:narrow:entry { @ = lquantize((int)arg4, 0, 1000); }

P:wide:entry { @ = lquantize(arg3, 0, 20, 5, arg3 + 1); }

P:wide:entry { @ = llquantize(arg3 * 37, 10, 0, 3, 10); }

P:wide:entry { @ = llquantize(arg0, 2, 3, 30, 2, 2); }

P:wide:entry { @[arg3] = count(); }

P:wide:entry { @[(int8_t)arg0] = count(); }

P:wide:entry { @[(uint8_t)arg0, (int16_t)arg0, (int32_t)arg0, arg0] = count(); }

P:wide:entry { @[arg3 & 1] = sum(arg3); @[arg3 & 1] = sum(1); }

P:wide:entry { @[arg3 > 10 ? "many" : "few"] = avg(arg3); }

P:wide:entry { @[probefunc, probename, arg3 & 3] = max(arg3); }

P:wide:entry { @[probefunc] = quantize(arg3); }

P:wide:entry { @[arg3 & 1] = quantize(arg3); @other[arg3 & 1] = quantize(-arg3); }

P:wide:entry { @[arg3 & 1] = lquantize(arg3, 0, 30, 3); }

P:wide:entry { @[arg3 & 3] = llquantize(arg3, 10, 0, 2, 10); }

P:wide:entry { @[arg3 & 3] = stddev(arg3); @b[arg3 & 3] = min(-arg3); }

P:wide:entry { @a = count(); @b = sum(arg3); @c = min(arg3); @d = max(arg3); @e = avg(arg3); @f = stddev(arg3); }

P:wide:entry { @a = quantize(arg3); @b = quantize(arg3 * 2); @c = quantize(arg3 * 4); @d = quantize(arg3 * 8); }

P:wide:entry { @x[1] = count(); @x[2] = count(); @y[1, 2] = count(); @z["a"] = count(); @w["a", 1] = count(); }

P:wide:entry { @[pid, tid] = count(); }

P:wide:entry { @[execname] = count(); }

P:wide:entry { @[ucaller] = count(); }

P:look:entry { @[args[0]->color] = count(); }

P:look:entry { @[args[0]->next] = sum(args[0]->s); }

P:look:entry { @[args[0]->low, args[0]->yes] = avg(args[0]->middle); }

P:speak:entry { @[copyinstr(arg0)] = quantize(strlen(copyinstr(arg0))); }

P:wide:entry /arg3 < 3/ { @[arg3] = count(); } P:wide:entry /arg3 >= 3/ { @[arg3] = count(); }

P:wide:entry { @[arg3] = count(); } P:narrow:entry { @[-1] = count(); }

P:wide:entry { @[arg3] = count(); } P:wide:return { @[arg3 + 1000] = count(); }

P:wide:entry { @ = sum(arg0 > 0); @b = sum(!arg0); }

P:wide:entry { @ = count(); clear(@); }

P:wide:entry { @[arg3] = sum(arg3); } END { trunc(@, 3); printa(@); }

P:wide:entry { @[arg3] = sum(arg3); } END { normalize(@, 2); printa("%d %@d\n", @); denormalize(@); }

P:wide:entry { @a[arg3 & 1] = count(); @b[arg3 & 1] = sum(arg3); } END { printa("%d %@d %@d\n", @a, @b); }

P:early:entry { self->t = arg0 + 1; } P:early:return /self->t/ { @[self->t & 1] = lquantize((int)arg1, -5, 50, 5); self->t = 0; }

parity$target:::numbers { @[(int)arg0] = avg(arg3); @q = quantize((int)arg0); }

P:wide:entry { @["\n\t quoted \"", 'x'] = count(); }

P:wide:entry { @[arg3, "a key that is longer than sixteen bytes"] = count(); }

P:wide:entry { @[usym(ucaller)] = count(); @b[ufunc(ucaller), umod(ucaller)] = count(); }

P:look:entry { @[uaddr(ucaller)] = count(); trace(usym(ucaller)); }
