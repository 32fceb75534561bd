// A program that hands inputs to the C side of berth, one after the other, for
// the fuzz targets of this package. The compiler's sanitizers end it at the first
// byte that is read or written where it must not be.
//
// An input is a letter that says who reads it, its length in 4 bytes, little end
// first, and its text. For each input the driver writes one byte.
#include "../exec.c"
#include "../program.c"

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>

static void read_answer(const char *text, size_t length) {
	static struct message answer;
	if (length > sizeof answer.text)
		return;
	memcpy(answer.text, text, length);
	answer.length = length;
	ASAN_POISON_MEMORY_REGION(answer.text + length, sizeof answer.text - length);
	char *changes = body(&answer);
	if (changes != NULL)
		apply(changes);
	ASAN_UNPOISON_MEMORY_REGION(answer.text, sizeof answer.text);
}

static void read_file(int fd, const char *text, size_t length) {
	char path[64], version[32], word[16];
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (ftruncate(fd, 0) != 0 || pwrite(fd, text, length, 0) != (ssize_t)length)
		abort();
	version_in(path, version, sizeof version);
	first_word(path, word, sizeof word);
}

// read_names takes three texts, each with a 0 after it: PATH, a command, and
// BERTH_PATIENCE.
static void read_names(char *text) {
	char file[64];
	char *name = text + strlen(text) + 1, *seconds = name + strlen(name) + 1;
	setenv("PATH", text, 1);
	setenv("BERTH_PATIENCE", seconds, 1);
	berth_find(name, file, sizeof file);
	if (patience() <= 0)
		abort();
}

int main(void) {
	int memory = memfd_create("input", 0), report = dup(STDERR_FILENO);
	__sanitizer_set_report_fd((void *)(long)report);
	if (freopen("/dev/null", "w", stderr) == NULL) // what an answer says is not wanted here
		return 1;
	for (;;) {
		unsigned char head[5];
		if (fread(head, 1, sizeof head, stdin) != sizeof head)
			return 0;
		size_t length = head[1] | head[2] << 8 | head[3] << 16 | (size_t)head[4] << 24;
		char *text = calloc(1, length + 3); // room for the ends of three texts
		if (text == NULL || fread(text, 1, length, stdin) != length)
			return 1;
		alarm(20); // an input must not take long
		if (head[0] == 'a')
			read_answer(text, length);
		else if (head[0] == 'f')
			read_file(memory, text, length);
		else
			read_names(text);
		alarm(0);
		free(text);
		clearenv();
		if (write(STDOUT_FILENO, "", 1) != 1)
			return 1;
	}
}
