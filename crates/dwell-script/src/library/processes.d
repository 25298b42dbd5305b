/* What ps(1) tells of the process and of the thread, by the names of the proc(4) files of old. */

typedef struct psinfo {
	int pr_nlwp;
	pid_t pr_pid;
	pid_t pr_ppid;
	pid_t pr_pgid;
	pid_t pr_sid;
	uid_t pr_uid;
	uid_t pr_euid;
	gid_t pr_gid;
	gid_t pr_egid;
	uintptr_t pr_addr;
	uint64_t pr_start;
	string pr_fname;
	string pr_psargs;
	uintptr_t pr_argv;
	uintptr_t pr_envp;
	char pr_dmodel;
} psinfo_t;

translator psinfo_t < struct task_struct *T > {
	pr_nlwp = T->signal->nr_threads;
	pr_pid = T->tgid;
	pr_ppid = T->real_parent->tgid;
	pr_pgid = T->signal->pids[2]->numbers[0].nr;
	pr_sid = T->signal->pids[3]->numbers[0].nr;
	pr_uid = T->real_cred->uid.val;
	pr_euid = T->real_cred->euid.val;
	pr_gid = T->real_cred->gid.val;
	pr_egid = T->real_cred->egid.val;
	pr_addr = (uintptr_t)T;
	pr_start = T->start_time;
	pr_fname = stringof(T->group_leader->comm);
	pr_psargs = T->mm == NULL ? stringof(T->comm) :
	    argstr(T->mm->arg_start, T->mm->arg_end - T->mm->arg_start);
	pr_argv = T->mm->arg_start;
	pr_envp = T->mm->env_start;
	pr_dmodel = 2;
};

typedef struct lwpsinfo {
	id_t pr_lwpid;
	uintptr_t pr_addr;
	string pr_name;
	char pr_sname;
	int pr_state;
	int pr_pri;
	int pr_nice;
	processorid_t pr_onpro;
	uint64_t pr_start;
} lwpsinfo_t;

translator lwpsinfo_t < struct task_struct *T > {
	pr_lwpid = T->pid;
	pr_addr = (uintptr_t)T;
	pr_name = stringof(T->comm);
	pr_sname = T->__state == 0 ? 'R' : (T->__state & 1) != 0 ? 'S' : (T->__state & 2) != 0 ? 'D' : 'T';
	pr_state = T->__state;
	pr_pri = T->prio;
	pr_nice = T->static_prio - 120;
	pr_onpro = cpu;
	pr_start = T->start_time;
};

inline psinfo_t *curpsinfo = xlate <psinfo_t *> (curthread);
inline lwpsinfo_t *curlwpsinfo = xlate <lwpsinfo_t *> (curthread);
