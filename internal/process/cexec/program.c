// Finding programs, and the libraries that they would import.
#define _GNU_SOURCE
#include "cexec.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fit(const char *file) {
	struct stat info;
	return stat(file, &info) == 0 && S_ISREG(info.st_mode) && access(file, X_OK) == 0;
}

int berth_find(const char *name, char *file, size_t size) {
	if (strchr(name, '/') != NULL)
		return (size_t)snprintf(file, size, "%s", name) < size && fit(file) ? 0 : -1;
	const char *path = getenv("PATH");
	if (path == NULL) // where a shell looks that was not told where
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	while (path != NULL && *name != '\0') {
		size_t n = strcspn(path, ":");
		if ((size_t)snprintf(file, size, "%.*s/%s", n ? (int)n : 1, n ? path : ".", name) < size && fit(file))
			return 0;
		path = path[n] == ':' ? path + n + 1 : NULL;
	}
	return -1;
}

// version_in reads the version of PyTorch from the file that it keeps it in.
static int version_in(const char *path, char *version, size_t size) {
	static const char key[] = "__version__ = '";
	char text[512];
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return 0;
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	char *begin = strstr(text, key);
	if (begin == NULL)
		return 0;
	begin += sizeof key - 1;
	snprintf(version, size, "%.*s", (int)strcspn(begin, "'\n"), begin);
	return 1;
}

// version_below looks for PyTorch in the packages below a prefix such as /usr
// or a virtual environment.
static int version_below(const char *prefix, char *version, size_t size) {
	static const char *const folders[] = {"site-packages", "dist-packages"};
	char path[PATH_MAX];
	glob_t pythons;
	int found = 0;
	snprintf(path, sizeof path, "%s/lib/python3*", prefix);
	if (glob(path, GLOB_NOSORT, NULL, &pythons) != 0)
		return 0;
	for (size_t i = 0; i < 2 * pythons.gl_pathc && !found; i++) {
		snprintf(path, sizeof path, "%s/%s/torch/version.py", pythons.gl_pathv[i / 2], folders[i % 2]);
		found = version_in(path, version, size);
	}
	globfree(&pythons);
	return found;
}

// prefix_of is the folder that the folder of a program lies in.
static int prefix_of(const char *program, char *prefix) {
	snprintf(prefix, PATH_MAX, "%s", program);
	for (int up = 0; up < 2; up++) {
		char *slash = strrchr(prefix, '/');
		if (slash == NULL)
			return 0;
		*slash = '\0';
	}
	return 1;
}

// follow replaces a path that is a link by where it leads.
static int follow(char *path) {
	char target[PATH_MAX], next[PATH_MAX];
	ssize_t n = readlink(path, target, sizeof target - 1);
	if (n <= 0)
		return 0;
	target[n] = '\0';
	int folder = *target == '/' ? 0 : (int)(strrchr(path, '/') - path) + 1;
	if ((size_t)snprintf(next, sizeof next, "%.*s%s", folder, path, target) >= sizeof next)
		return 0;
	strcpy(path, next);
	return 1;
}

// beside looks for PyTorch where a program lies, and where it leads to as a
// link. The python of a virtual environment is a link too, but the packages are
// those of the environment.
static int beside(const char *program, char *version, size_t size) {
	char path[PATH_MAX], prefix[PATH_MAX], mark[PATH_MAX + 16];
	if ((size_t)snprintf(path, sizeof path, "%s", program) >= sizeof path)
		return 0;
	for (int links = 0; links < 16 && prefix_of(path, prefix); links++) {
		if (version_below(prefix, version, size))
			return 1;
		snprintf(mark, sizeof mark, "%s/pyvenv.cfg", prefix);
		if (access(mark, F_OK) == 0 || !follow(path))
			return 0;
	}
	return 0;
}

// first_word reads the first word of a file.
static int first_word(const char *path, char *word, size_t size) {
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return 0;
	char *line = fgets(word, (int)size, file);
	fclose(file);
	if (line == NULL)
		return 0;
	word[strcspn(word, " \t\r\n")] = '\0';
	return *word != '\0';
}

// chosen_here reads which version pyenv uses in this folder: the nearest
// .python-version says so, here or further up.
static int chosen_here(char *version, size_t size) {
	char folder[PATH_MAX], path[PATH_MAX + 16];
	if (getcwd(folder, sizeof folder) == NULL)
		return 0;
	for (;;) {
		snprintf(path, sizeof path, "%s/.python-version", folder);
		if (first_word(path, version, size))
			return 1;
		char *slash = strrchr(folder, '/');
		if (slash == NULL)
			return 0;
		*slash = '\0'; // at last it is empty, which is the root
	}
}

// behind_shim looks where pyenv would: the programs in its folder of shims stand
// for those of the version that was chosen for this shell, for this folder, or
// for everything.
static int behind_shim(const char *program, char *version, size_t size) {
	char root[PATH_MAX], path[PATH_MAX + 64], chosen[256];
	const char *own = getenv("PYENV_VERSION");
	const char *shims = strstr(program, "/shims/");
	if (shims == NULL || (size_t)snprintf(root, sizeof root, "%.*s", (int)(shims - program), program) >= sizeof root)
		return 0;
	snprintf(path, sizeof path, "%s/version", root);
	if (own != NULL && *own != '\0')
		snprintf(chosen, sizeof chosen, "%.*s", (int)strcspn(own, ":"), own);
	else if (!chosen_here(chosen, sizeof chosen) && !first_word(path, chosen, sizeof chosen))
		return 0;
	return (size_t)snprintf(path, sizeof path, "%s/versions/%s", root, chosen) < sizeof path && version_below(path, version, size);
}

void berth_torch(const char *program, char *version, size_t size) {
	char python[PATH_MAX], local[PATH_MAX];
	const char *venv = getenv("VIRTUAL_ENV"), *conda = getenv("CONDA_PREFIX"), *home = getenv("HOME");
	*version = '\0';
	if (beside(program, version, size) || behind_shim(program, version, size) ||
	    (venv != NULL && version_below(venv, version, size)) ||
	    (conda != NULL && version_below(conda, version, size)))
		return;
	if (berth_find("python3", python, sizeof python) == 0 &&
	    (beside(python, version, size) || behind_shim(python, version, size)))
		return;
	if (home != NULL && (size_t)snprintf(local, sizeof local, "%s/.local", home) < sizeof local)
		version_below(local, version, size);
}
