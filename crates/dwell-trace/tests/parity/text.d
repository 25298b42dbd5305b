# Strings.

P:speak:entry { trace(copyinstr(arg0)); }

P:speak:entry { trace(strlen(copyinstr(arg0))); }

P:speak:entry /copyinstr(arg0) == "hello"/ { trace(arg1); }

P:speak:entry /copyinstr(arg0) != "hello"/ { trace(arg1); }

P:speak:entry { trace(copyinstr(arg0) < "hello"); trace(copyinstr(arg0) > "hello"); }

P:speak:entry { trace(copyinstr(arg0) <= "a"); trace(copyinstr(arg0) >= "a"); }

P:speak:entry { trace(strjoin(copyinstr(arg0), "!")); }

P:speak:entry { trace(strjoin(strjoin("<", copyinstr(arg0)), ">")); }

P:speak:entry { trace(substr(copyinstr(arg0), 2)); }

P:speak:entry { trace(substr(copyinstr(arg0), 1, 3)); }

P:speak:entry { trace(substr(copyinstr(arg0), -3)); }

P:speak:entry { trace(substr(copyinstr(arg0), (int)arg1)); }

P:speak:entry { trace(strchr(copyinstr(arg0), 'l')); }

P:speak:entry { trace(strrchr(copyinstr(arg0), '/')); }

P:speak:entry { trace(strstr(copyinstr(arg0), "ll")); }

P:speak:entry { trace(index(copyinstr(arg0), "l")); trace(rindex(copyinstr(arg0), "l")); }

P:speak:entry { trace(index(copyinstr(arg0), "e", 3)); }

P:speak:entry { trace(rindex(copyinstr(arg0), "i", 10)); }

P:speak:entry { trace(strtok(copyinstr(arg0), ",; ")); trace(strtok(NULL, ",; ")); }

P:speak:entry { trace(basename(copyinstr(arg0))); }

P:speak:entry { trace(dirname(copyinstr(arg0))); }

P:speak:entry { trace(cleanpath(strjoin(copyinstr(arg0), "/.././/x/../y"))); }

P:speak:entry { trace(tolower(copyinstr(arg0))); trace(toupper(copyinstr(arg0))); }

P:wide:entry { trace(lltostr(arg0)); }

P:wide:entry { trace(lltostr(arg0, 16)); trace(lltostr(arg3, 2)); }

P:wide:entry { trace(strtoll(lltostr(arg0))); }

P:wide:entry { trace(strtoll(lltostr(arg0, 16), 16)); }

P:speak:entry { trace(strtoll(copyinstr(arg0))); }

P:wide:entry { this->a = (uint32_t *)alloca(4); *this->a = (uint32_t)arg0; trace(inet_ntoa(this->a)); }

P:wide:entry { this->a = (uint64_t *)alloca(16); this->a[0] = arg0; this->a[1] = arg3; trace(inet_ntoa6((struct in6_addr *)this->a)); }

P:wide:entry { this->a = (uint32_t *)alloca(4); *this->a = (uint32_t)arg3; trace(inet_ntop(AF_INET, this->a)); }

P:speak:entry { s = copyinstr(arg0); trace(s); trace(strlen(s)); }

P:speak:entry { this->s = copyinstr(arg0); trace(this->s); }

P:speak:entry { self->s = copyinstr(arg0); } P:speak:return { trace(self->s); self->s = 0; }

P:speak:entry { last = arg1 > 2 ? copyinstr(arg0) : "few"; trace(last); }

P:speak:entry { trace(arg1 & 1 ? copyinstr(arg0) : probefunc); }

P:speak:entry { @[copyinstr(arg0)] = sum(arg1); }

P:speak:entry { @[copyinstr(arg0), strlen(copyinstr(arg0))] = count(); }

P:speak:entry { names[arg1] = copyinstr(arg0); } END { trace(names[0]); trace(names[3]); trace(names[99]); }

P:speak:entry { seen[copyinstr(arg0)] = arg1; } END { trace(seen["hello"]); trace(seen["a"]); trace(seen["nobody"]); }

#pragma D option strsize=16
P:speak:entry { trace(copyinstr(arg0)); trace(strlen(copyinstr(arg0))); trace(strjoin(copyinstr(arg0), "0123456789")); }

#pragma D option strsize=512
P:speak:entry { trace(copyinstr(arg0)); trace(strjoin(copyinstr(arg0), copyinstr(arg0))); }

P:speak:entry /strstr(copyinstr(arg0), "lib") != NULL/ { trace(copyinstr(arg0)); }

P:speak:entry { trace(strlen(copyinstr(arg0)) * arg1 + index(copyinstr(arg0), "o")); }

P:speak:entry { printf("%s %d %5s|%-5s|", copyinstr(arg0), arg1, "ab", "cd"); }

P:speak:entry { trace(argstr(arg0, 5)); }

P:speak:entry { trace(stringof(copyinstr(arg0))); trace((string)copyinstr(arg0)); }

P:speak:entry { trace("\377\x80 \303\244 ä"); trace(strlen("\377\x80ä")); trace(index("a\377b", "\377")); trace(strchr("a\377b", '\377')); }

P:speak:entry { trace("\377" > "z"); trace("\200" == "\x80"); trace("\377" == "\376"); trace(strstr("x\200\377y", "\377")); }

P:speak:entry { @["\377"] = count(); @["\376"] = count(); @["ÿ"] = count(); seen["\200"] = arg1; } END { trace(seen["\200"]); trace(seen["\201"]); }

P:speak:entry { trace(strtok("a\377b\200c", "\377\200")); trace(strtok(NULL, "\377\200")); trace(strjoin("\377", substr("\200\201\202", 1))); }
