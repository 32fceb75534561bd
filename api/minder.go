package api

// MinderVersion is the version of MinderOrder that this berth writes, and the newest that
// it understands. A minder runs for as long as its job, so minders and daemons of
// different versions meet.
const MinderVersion = 1

// MinderRequest asks for the order of a run. A minder sends it.
type MinderRequest struct {
	Run     string `json:"run" maxLength:"48" pattern:"^[0-9]+[.][0-9]+[.][0-9]+$" doc:"The numbers of the job, the task and the try." example:"17.3.1"`
	Version int    `json:"version" minimum:"1" maximum:"1000000" doc:"The newest version of an order that the minder understands."`
}

// MinderOrder tells a minder what to run. The daemon gives it only to the process that has
// locked the file of the run.
type MinderOrder struct {
	Version int    `json:"version"`
	Run     string `json:"run"`

	User string `json:"user,omitempty" doc:"The login name. It must still have this uid."`
	UID  int    `json:"uid"`

	Account *MinderAccount `json:"account,omitempty" doc:"The user, as the user database has it now. Absent, from an older daemon: the minder asks the database."`

	Command     []string `json:"command"`
	Directory   string   `json:"directory,omitempty" doc:"Where the command runs. Absent: the home of the user, or a folder for the state of berth if there is none."`
	Environment []string `json:"environment,omitempty" doc:"Absent: HOME, USER, LOGNAME, SHELL and PATH."`
	Variables   []string `json:"variables,omitempty" doc:"More variables, which replace those of the environment."`
	Umask       int      `json:"umask"`
	Output      string   `json:"output,omitempty" doc:"The file for its output; a relative path is below the directory. Absent: log."`
	Error       string   `json:"error,omitempty" doc:"The file for its errors. Absent: the same as for its output."`
	Log         string   `json:"log" doc:"The name of the file for its output if none was asked for, in the directory or else in the state folder of the user."`
	Parts       int      `json:"parts,omitempty" doc:"How many older parts of log are kept. It then begins anew with each run, and when it has 16 MiB. Absent: it grows."`

	Lease   Lease  `json:"lease" doc:"The lease of the run, with launch."`
	Compute int    `json:"compute_percent,omitempty" doc:"Share of the multiprocessors, by MPS."`
	Socket  string `json:"socket,omitempty" doc:"Where programs find the daemon, if that is not the usual place."`
}

// MinderAccount is a user of the machine.
type MinderAccount struct {
	Name   string `json:"name,omitempty"`
	GID    int    `json:"gid"`
	Groups []int  `json:"groups,omitempty"`
	Home   string `json:"home,omitempty"`
}
