// Finding programs, and the libraries that they would import.
#define _GNU_SOURCE
#include "headstart.h"

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

// beside looks in the folder that the folder of a program lies in.
static int beside(const char *program, char *version, size_t size) {
	char prefix[PATH_MAX];
	snprintf(prefix, sizeof prefix, "%s", program);
	for (int up = 0; up < 2; up++) {
		char *slash = strrchr(prefix, '/');
		if (slash == NULL)
			return 0;
		*slash = '\0';
	}
	return version_below(prefix, version, size);
}

void berth_torch(const char *program, char *version, size_t size) {
	char python[PATH_MAX], real[PATH_MAX], local[PATH_MAX];
	const char *venv = getenv("VIRTUAL_ENV"), *conda = getenv("CONDA_PREFIX"), *home = getenv("HOME");
	*version = '\0';
	if (beside(program, version, size) ||
	    (venv != NULL && version_below(venv, version, size)) ||
	    (conda != NULL && version_below(conda, version, size)))
		return;
	if (berth_find("python3", python, sizeof python) == 0 &&
	    (beside(python, version, size) || (realpath(python, real) != NULL && beside(real, version, size))))
		return;
	if (home != NULL && (size_t)snprintf(local, sizeof local, "%s/.local", home) < sizeof local)
		version_below(local, version, size);
}
