typedef struct cpuinfo {
	processorid_t cpu_id;
} cpuinfo_t;

translator cpuinfo_t < processorid_t C > {
	cpu_id = C;
};

inline cpuinfo_t *curcpu = xlate <cpuinfo_t *> (cpu);
