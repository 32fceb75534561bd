#include "imports.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

// Neither NVML nor the driver library tells which memory a process has opened. The
// kernel driver does: it knows for each process how much memory is its own, and how
// much is a duplicate of what another process owns. NVML gets the sum from the same
// call. The numbers and forms here are those of NVIDIA's open kernel modules (nvos.h,
// cl0080.h, ctrl0000gpu.h, ctrl2080gpu.h), the same from driver 535 to 595. The driver
// refuses a call whose parameters have another size than it knows.

enum { calls = 'F', allocate_nr = 0x2b, control_nr = 0x2a, register_nr = 0xc9 };
enum { root_class = 0x41, device_class = 0x80, subdevice_class = 0x2080 };
enum { attached_ids = 0x201, id_info = 0x205, pid_info = 0x2080018e };
enum { most_gpus = 32, no_gpu = 0xffffffff, most_processes = 200 };

struct allocation {
	uint32_t root, parent, handle, class;
	uint64_t parameters;
	uint32_t size, status;
};

struct command {
	uint32_t client, object, command, flags;
	uint64_t parameters;
	uint32_t size, status;
};

struct device_parameters {
	uint32_t instance, shared, target, target_device, flags;
	uint64_t space, start, limit;
	uint32_t mode;
};

struct gpu_info {
	uint32_t id, flags, device, subdevice, sli, board, instance;
	int32_t node;
};

struct process_memory {
	uint32_t pid, index, result;
	uint64_t own, shared, opened, protected[3];
	uint32_t partition[2];
};

struct process_list {
	uint32_t count;
	struct process_memory list[most_processes];
};

_Static_assert(sizeof(struct allocation) == 32 && sizeof(struct command) == 32 && sizeof(struct device_parameters) == 56 &&
                   sizeof(struct gpu_info) == 32 && sizeof(struct process_list) == 8 + most_processes * 72,
               "the forms are those of the kernel driver");

static int control_fd = -1;
static uint32_t client;

static int allocate(uint32_t parent, uint32_t class, void *parameters, uint32_t size, uint32_t *handle) {
	struct allocation a = {.root = client, .parent = parent, .class = class, .parameters = (uintptr_t)parameters, .size = size};
	if (ioctl(control_fd, _IOWR(calls, allocate_nr, struct allocation), &a) != 0 || a.status != 0)
		return -1;
	*handle = a.handle;
	return 0;
}

static int control(uint32_t object, uint32_t number, void *parameters, uint32_t size) {
	struct command c = {.client = client, .object = object, .command = number, .parameters = (uintptr_t)parameters, .size = size};
	return ioctl(control_fd, _IOWR(calls, control_nr, struct command), &c) != 0 || c.status != 0 ? -1 : 0;
}

// subdevices are the GPUs that can be asked. The kernel driver closes everything when
// this process ends.
static uint32_t subdevices[most_gpus];
static int gpus = -1; // not opened yet

// open_gpus opens all GPUs that are in use. It returns how many there are.
static int open_gpus(void) {
	uint32_t ids[most_gpus];
	control_fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
	if (control_fd < 0 || allocate(0, root_class, NULL, 0, &client) != 0)
		return 0;
	for (int minor = 0; minor < most_gpus; minor++) {
		char path[32];
		snprintf(path, sizeof path, "/dev/nvidia%d", minor);
		int fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd >= 0)
			ioctl(fd, _IOWR(calls, register_nr, int), &(int){control_fd}); // else the allocation fails
	}
	if (control(client, attached_ids, ids, sizeof ids) != 0)
		return 0;
	int n = 0;
	for (int i = 0; i < most_gpus && ids[i] != no_gpu; i++) {
		struct gpu_info about = {.id = ids[i]};
		struct device_parameters p = {0};
		uint32_t device;
		if (control(client, id_info, &about, sizeof about) != 0)
			continue;
		p.instance = about.device;
		if (allocate(client, device_class, &p, sizeof p, &device) == 0 &&
		    allocate(device, subdevice_class, &about.subdevice, sizeof about.subdevice, &subdevices[n]) == 0)
			n++;
	}
	return n;
}

int berth_cuda_imports(int pid, uint64_t *bytes) {
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	static struct process_list all; // large for the stack of a thread
	int failed = 0;
	*bytes = 0;
	pthread_mutex_lock(&one);
	if (gpus < 0)
		gpus = open_gpus();
	for (int i = 0; i < gpus; i++) {
		memset(&all, 0, sizeof all);
		all.count = 1;
		all.list[0].pid = pid;
		if (control(subdevices[i], pid_info, &all, sizeof all) != 0 || all.list[0].result != 0)
			failed = 1;
		else
			*bytes += all.list[0].opened;
	}
	if (gpus == 0)
		failed = 1;
	pthread_mutex_unlock(&one);
	return failed && *bytes == 0 ? -1 : 0;
}
