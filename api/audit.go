package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// AuditLog is a page of the audit log, the oldest entry first.
type AuditLog struct {
	Entries []AuditEntry `json:"entries" doc:"The entries, the oldest first."`
	Next    uint64       `json:"next,omitempty" doc:"There are more entries: ask for those after this number. Absent: there are none."`
}

// AuditEntry is one line of the audit log: an act of authority, or a refusal.
// The log has one JSON object in each line, in this form.
type AuditEntry struct {
	Seq     uint64            `json:"seq" doc:"Number of the entry. It grows by one with each."`
	Time    time.Time         `json:"time"`
	Who     AuditActor        `json:"who" doc:"Who did it, or wanted to."`
	What    string            `json:"what" example:"release" doc:"What was done: the verb of docs/reference/access.md, or kill, create, rotate, torn, lost."`
	Object  AuditObject       `json:"object,omitzero" doc:"What it was done to."`
	Before  map[string]string `json:"before,omitempty" doc:"What was there before, by name. Secrets are never shown."`
	After   map[string]string `json:"after,omitempty" doc:"What is there afterwards, by name."`
	Why     string            `json:"why,omitempty" doc:"Why it was done or refused."`
	Outcome string            `json:"outcome" enum:"done,failed,refused" doc:"done: berth wrote the entry, and then did it. failed: an earlier entry says done, and it could not be done. refused: berth did not do it."`
	Prev    string            `json:"prev" doc:"SHA-256 of the line before, in hexadecimal; empty in the first line of all."`
}

// AuditActor names the actor of an audit entry.
type AuditActor struct {
	User    string       `json:"user,omitempty" doc:"Login name, token:NAME or cert:NAME. Absent: the daemon did it by itself."`
	UID     gpu.Opt[int] `json:"uid,omitzero" doc:"Absent: the kernel did not say."`
	Role    string       `json:"role,omitempty"`
	Door    string       `json:"door" enum:"socket,tcp,process,daemon" doc:"The way it was asked for. daemon: nobody asked, the daemon did it by itself."`
	Token   string       `json:"token,omitempty" doc:"Name of the token that was shown."`
	Address string       `json:"address,omitempty" doc:"Where the connection came from, for door tcp."`
}

// AuditObject names the object of an act.
type AuditObject struct {
	Kind  string `json:"kind" enum:"lease,request,process,settings,monitoring,token,session,route,log,device,alert" doc:"What kind of thing it is."`
	Owner string `json:"owner,omitempty" doc:"User whose thing it is."`
	ID    string `json:"id,omitempty" doc:"Id of the lease, number of the process, name of the token, UUID of the device, fingerprint of the alert, method and path of the route."`
}

// AuditVerdict says whether the audit log is intact.
type AuditVerdict struct {
	Sound    bool           `json:"sound" doc:"Whether there is no problem."`
	Entries  int            `json:"entries" doc:"How many entries were read."`
	First    uint64         `json:"first,omitempty" doc:"Number of the oldest entry."`
	Last     uint64         `json:"last,omitempty" doc:"Number of the newest entry."`
	Files    []string       `json:"files" doc:"The files that were read, the oldest first."`
	Marked   uint64         `json:"marked,omitempty" doc:"Number of the newest entry that the journal names. Absent: it names none."`
	Problems []AuditProblem `json:"problems" doc:"What is wrong, in the order of the log."`
}

// AuditProblem is one thing that is wrong with the audit log.
type AuditProblem struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty" doc:"Number of the line in the file, from 1."`
	Seq  uint64 `json:"seq,omitempty" doc:"Number of the entry, where it is known."`
	Text string `json:"text" doc:"One sentence for people."`
}
