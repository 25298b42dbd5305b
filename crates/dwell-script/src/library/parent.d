inline pid_t ppid = curthread->real_parent->tgid;
