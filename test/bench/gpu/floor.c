// The floor under an idle daemon on an NVIDIA GPU: what a program takes that only opens
// NVML and asks nine questions about the first device each second, for 40 seconds.
//
//	gcc -O2 -o floor test/bench/gpu/floor.c -ldl && ./floor
//
// It prints its memory at each step, and its share of a core.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void memory(const char *when) {
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");
	printf("%s:", when);
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "VmRSS", 5) || !strncmp(line, "Rss", 3)) printf(" %.*s", (int)strcspn(line, "\n"), line);
	printf("\n");
	if (f) fclose(f);
}

static double used(void) {
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(void) {
	memory("start");
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW), *device;
	if (!nvml) return puts(dlerror()), 1;
	memory("loaded");
	int (*init)(void) = dlsym(nvml, "nvmlInit_v2"), (*handle)(unsigned, void **) = dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
	if (!init || !handle || init() || handle(0, &device)) return puts("NVML has no device"), 1;
	memory("open");
	int (*temperature)(void *, int, unsigned *) = dlsym(nvml, "nvmlDeviceGetTemperature");
	int (*clock)(void *, int, unsigned *) = dlsym(nvml, "nvmlDeviceGetClockInfo");
	int (*power)(void *, unsigned *) = dlsym(nvml, "nvmlDeviceGetPowerUsage");
	int (*load)(void *, unsigned *) = dlsym(nvml, "nvmlDeviceGetUtilizationRates");
	int (*room)(void *, unsigned long long *) = dlsym(nvml, "nvmlDeviceGetMemoryInfo");
	int (*energy)(void *, unsigned long long *) = dlsym(nvml, "nvmlDeviceGetTotalEnergyConsumption");
	int (*reasons)(void *, unsigned long long *) = dlsym(nvml, "nvmlDeviceGetCurrentClocksEventReasons");
	int (*processes)(void *, unsigned *, void *) = dlsym(nvml, "nvmlDeviceGetComputeRunningProcesses_v3");
	static char list[65536];
	unsigned number[8];
	unsigned long long large[8];
	double before = used();
	for (int i = 0; i < 40; i++) {
		unsigned most = 64;
		temperature(device, 0, number), power(device, number), load(device, number), clock(device, 0, number), clock(device, 2, number);
		room(device, large), energy(device, large), reasons(device, large), processes(device, &most, list);
		sleep(1);
	}
	printf("nine calls a second: %.3f %% of a core\n", (used() - before) / 40 * 100);
	memory("after");
	return 0;
}
