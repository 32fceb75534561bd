// Package minder starts the command of a job, waits for its end, and keeps its exit code.
//
// A minder is a process of its own. The daemon starts one for each run of a task (Starter)
// and may then end in any way: the minder, its command and the exit code do not depend on
// it. Each run has a file in a folder that only root reads (Runs). The minder locks that
// file before it does anything, and writes into it in three steps:
//
//   - begun: which process it is;
//   - started: the command is started next. It is durable before the command begins, so
//     no command is started twice, whoever is killed and whenever;
//   - ended: the exit code, or why the command could not be started.
//
// Then the minder asks the daemon what to run, becomes the user of the job for good, and
// starts the command (Mind). The user can kill it, which ends the job. The user cannot
// read or write the file of the run: the minder opened it as root, the kernel lets nobody
// but root inspect the minder, and no program inherits the file.
package minder
