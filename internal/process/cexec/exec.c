// berth exec, before Go: see cexec.go for why. The daemon does the thinking
// (internal/door/httpapi/exec.go); this sends it what was typed, and gets back what
// to change in the environment. Whatever is not plain is left to Go, with
// nothing changed.
#define _GNU_SOURCE
#include "cexec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;

unsigned long long berth_ignored;
unsigned berth_closed;
int berth_unanswered;

// message is a request or an answer: strings, each with a letter before it that
// says what it is and a 0 after it.
struct message {
	char text[64 << 10];
	size_t length;
};

// set is a variable that has a value, or NULL.
static const char *set(const char *name) {
	const char *value = getenv(name);
	return value != NULL && *value != '\0' ? value : NULL;
}

static int add(struct message *m, char kind, const char *text) {
	size_t n = strlen(text) + 1;
	if (m->length + 1 + n > sizeof m->text)
		return -1;
	m->text[m->length++] = kind;
	memcpy(m->text + m->length, text, n);
	m->length += n;
	return 0;
}

static const char *const told[] = { // what the daemon goes by, of the environment
	"PYTORCH_", "CUPY_GPU_", "XLA_", "CUDA_", "HIP_VISIBLE_", "ROCR_VISIBLE_", "ZE_", "ONEAPI_", "TF_FORCE_",
	"BERTH_LEASE=", "BERTH_FENCE=", "BERTH_MEMORY_MB=", "BERTH_PARKABLE=", "BERTH_ISOLATION=",
};

// request is what was typed, and what the program would find. A command that is
// too long for it is left to Go.
static int request(struct message *m, char **flags, char **command, const char *file) {
	char torch[32];
	for (; strcmp(*flags, "--") != 0; flags++)
		if (add(m, 'f', *flags) != 0)
			return -1;
	for (; *command != NULL; command++)
		if (add(m, 'c', *command) != 0)
			return -1;
	for (char **entry = environ; *entry != NULL; entry++)
		for (size_t i = 0; i < sizeof told / sizeof *told; i++)
			if (strncmp(*entry, told[i], strlen(told[i])) == 0 && add(m, 'e', *entry) != 0)
				return -1;
	berth_torch(file, torch, sizeof torch);
	return add(m, 't', torch);
}

// patience is how many seconds the daemon may take to answer. It does so at once
// unless it hangs. What is not a whole number is as good as nothing, as in Go.
static long patience(void) {
	const char *text = set("BERTH_PATIENCE");
	size_t digits = text != NULL ? strspn(text, "0123456789") : 0;
	long seconds = digits > 0 && digits < 10 && text[digits] == '\0' ? atol(text) : 0;
	return seconds > 0 ? seconds : 10;
}

// give_up ends this process: the daemon hangs. Go would not get further, and if
// it asked too, a daemon that wakes up might grant both.
static void give_up(void) {
	dprintf(STDERR_FILENO, "berth: POST /api/exec: no answer within %lds\n"
	        "  the daemon hangs: see its log; BERTH_PATIENCE=60 waits longer\n", patience());
	_exit(3); // what Go ends with if no daemon answers
}

// trusted reports whether root may do what the process at the other end says: it is one
// of root. Go knows who else may be there.
static int trusted(int fd) {
	struct ucred peer;
	socklen_t size = sizeof peer;
	return geteuid() != 0 || (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == 0);
}

static int dial(const char *path) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = patience()};
	if (strlen(path) >= sizeof address.sun_path)
		return -1;
	strcpy(address.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); // for connect too: its queue may be full
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
		if (trusted(fd))
			return fd;
		errno = EPERM;
	}
	if (errno == EAGAIN)
		give_up();
	close(fd);
	return -1;
}

// reach connects to the daemon that the command in Go would find, if that command would
// speak to it as this process does: without a token.
static int reach(char **flags) {
	const char *socket = NULL, *runtime = set("XDG_RUNTIME_DIR");
	if (set("BERTH_TOKEN_FILE") != NULL)
		return -1;
	for (; strcmp(*flags, "--") != 0; flags++) {
		if (strncmp(*flags, "--url", 5) == 0)
			return -1;
		if (strncmp(*flags, "--socket=", 9) == 0)
			socket = *flags + 9;
		else if (strcmp(*flags, "--socket") == 0)
			socket = flags[1];
	}
	if (socket == NULL)
		socket = set("BERTH_SOCKET");
	if (socket != NULL)
		return dial(socket);
	if (set("BERTH_URL") != NULL)
		return -1;
	if (geteuid() != 0) {
		char own[108];
		if (runtime == NULL || *runtime != '/' ||
		    snprintf(own, sizeof own, "%s/berth/berth.sock", runtime) >= (int)sizeof own)
			return -1;
		int fd = dial(own);
		if (fd >= 0)
			return fd;
	}
	return dial("/run/berth/berth.sock");
}

// ask sends a request and reads the answer to its end, which is when the daemon
// closes. Meanwhile an interrupt ends this process as it would any other.
static int ask(int fd, const struct message *m, struct message *answer) {
	char head[256];
	size_t n = snprintf(head, sizeof head,
	                    "POST /api/exec HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
	                    "Content-Type: application/octet-stream\r\nContent-Length: %zu\r\n\r\n", m->length);
	struct iovec parts[] = {{head, n}, {(void *)m->text, m->length}};
	struct msghdr whole = {.msg_iov = parts, .msg_iovlen = 2}; // at once: the daemon wakes up once
	if (sendmsg(fd, &whole, MSG_NOSIGNAL) != (ssize_t)(n + m->length))
		return -1; // a socket takes this much, or something is wrong
	while (answer->length < sizeof answer->text) {
		ssize_t got = read(fd, answer->text + answer->length, sizeof answer->text - answer->length);
		if (got == 0)
			return 0;
		if (got > 0)
			answer->length += got;
		else if (errno == EAGAIN)
			give_up();
		else if (errno != EINTR)
			return -1;
	}
	return -1;
}

// refused reports whether the daemon says that it changed nothing.
static int refused(const struct message *answer) {
	static const char conflict[] = "HTTP/1.1 409 ";
	return answer->length >= sizeof conflict - 1 && memcmp(answer->text, conflict, sizeof conflict - 1) == 0;
}

// body returns where the strings of a good answer begin, or NULL. The last string
// of a whole answer is a dot.
static char *body(struct message *answer) {
	static const char good[] = "HTTP/1.1 200 ";
	char *begin = memmem(answer->text, answer->length, "\r\n\r\n", 4);
	if (begin == NULL || strncmp(answer->text, good, sizeof good - 1) != 0)
		return NULL;
	begin += 4;
	char *end = answer->text + answer->length;
	if (end - begin < 2 || end[-1] != '\0' || end[-2] != '.')
		return NULL;
	if (end - begin > 2 && end[-3] != '\0') // the dot ends a longer string: apply would read on
		return NULL;
	return begin;
}

// apply makes the changes that the daemon asked for.
static void apply(char *change) {
	for (; *change != '.'; change += strlen(change) + 1) {
		char *value = strchr(change, '=');
		switch (*change) {
		case 's':
			if (value != NULL) {
				*value = '\0';
				setenv(change + 1, value + 1, 1);
				*value = '=';
			}
			break;
		case 'u':
			unsetenv(change + 1);
			break;
		case 'm':
			dprintf(STDERR_FILENO, "berth: %s\n", change + 1);
		}
	}
}

// run_script lets a shell run a file that names no interpreter, as a shell would.
static void run_script(const char *file, char **command) {
	size_t n = 1;
	while (command[n] != NULL)
		n++;
	char **shell = malloc((n + 2) * sizeof *shell); // sh, the file, the arguments, the end
	if (shell == NULL)
		return;
	shell[0] = "sh";
	shell[1] = (char *)file;
	memcpy(shell + 2, command + 1, n * sizeof *shell);
	execve("/bin/sh", shell, environ);
}

// become is execve as a shell does it. The lease is bound to this process,
// whose pid and start time stay the same; if it cannot go on it ends, and the
// lease with it.
static void become(const char *file, char **command) {
	execve(file, command, environ);
	if (errno == ENOEXEC)
		run_script(file, command);
	int missing = errno == ENOENT;
	dprintf(STDERR_FILENO, "berth: run %s: %s\n", file,
	        missing ? "the interpreter that its first line names, or its loader, is not there" : strerror(errno));
	_exit(missing ? 127 : 126);
}

// mistaken reports whether flags of berth behind the command may have been meant for berth,
// which the command in Go tells a person at a terminal.
static int mistaken(char **command) {
	static const char *const flags[] = {"--memory", "--gpus", "--slots", "--time"}; // ofBoth in package console
	for (char **word = command + 1; *word != NULL; word++)
		for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
			size_t n = strlen(flags[i]);
			if (strncmp(*word, flags[i], n) == 0 && ((*word)[n] == '\0' || (*word)[n] == '='))
				return isatty(STDERR_FILENO);
		}
	return 0;
}

static void try_exec(char **argv) {
	static struct message question, answer;
	char **flags = argv + 2, **command = flags, file[4096];
	while (*command != NULL && strcmp(*command, "--") != 0)
		command++;
	if (*command == NULL || *++command == NULL || berth_find(*command, file, sizeof file) != 0)
		return;
	if (mistaken(command))
		return;
	int fd = reach(flags);
	if (fd < 0)
		return;
	if (request(&question, flags, command, file) != 0) {
		close(fd);
		return;
	}
	int failed = ask(fd, &question, &answer) != 0;
	close(fd);
	char *changes = failed ? NULL : body(&answer);
	if (changes == NULL) {
		berth_unanswered = !refused(&answer); // the lease may have been granted
		return;
	}
	apply(changes);
	become(file, command);
}

#ifdef __GLIBC__ // which hands a constructor the arguments
__attribute__((constructor)) static void begin(int argc, char **argv, char **envp) {
	(void)envp;
	for (int s = 1; s <= 64; s++) {
		struct sigaction action;
		if (sigaction(s, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
			berth_ignored |= 1ULL << (s - 1);
	}
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			berth_closed |= 1u << fd;
	if (argc < 4 || strcmp(argv[1], "exec") != 0 || set("BERTH_EXEC_IN_GO") != NULL ||
	    set("BERTH_NO_HEADSTART") != NULL) // what it was called in earlier versions
		return;
	const char *slash = strrchr(argv[0], '/');
	if (strcmp(slash ? slash + 1 : argv[0], "berth") == 0)
		try_exec(argv);
}
#endif
