package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Whoami says which user the daemon takes the caller for.
type Whoami struct {
	User    string       `json:"user" example:"alice" doc:"Login name, token:NAME or cert:NAME; unknown: the daemon does not know the caller."`
	UID     gpu.Opt[int] `json:"uid,omitzero" doc:"Absent: the caller is not known by a user id."`
	Role    string       `json:"role" enum:"stranger,scraper,viewer,user,operator,admin"`
	Why     []string     `json:"why" doc:"Why the caller has this role, a sentence each. The first one decides."`
	Door    string       `json:"door" enum:"socket,tcp,process" doc:"The way the caller came in."`
	Token   string       `json:"token,omitempty" doc:"Name of the token that the caller showed."`
	Service string       `json:"service,omitempty" doc:"The only service that the caller may act for. Absent: any."`
	Groups  []string     `json:"groups,omitempty" doc:"Groups of the caller that the configuration has an entry for."`
	Session *Session     `json:"session,omitempty" doc:"The session that the request was made with. Absent: none."`
}

// SignIn begins a session with a code or a token.
type SignIn struct {
	Code  string `json:"code,omitempty" maxLength:"64" doc:"Code of a link that berth open made."`
	Token string `json:"token,omitempty" maxLength:"512" doc:"Secret of a token."`
}

// SessionLink is a link for signing in on the page.
type SessionLink struct {
	URL     string    `json:"url" example:"http://127.0.0.1:8000/#login=CODE" doc:"Address of the page, with the code behind the #. It works once."`
	Expires time.Time `json:"expires" doc:"When the code ends, if nobody has used it."`
}

// Session is a session on the page, without its secret.
type Session struct {
	ID      string       `json:"id"`
	User    string       `json:"user" doc:"Who signed in: login name, or token:NAME."`
	UID     gpu.Opt[int] `json:"uid,omitzero" doc:"The session holds only for connections of this user. Absent: it began on another machine."`
	Token   string       `json:"token,omitempty" doc:"Name of the token that it was begun with. Absent: with a link."`
	Role    string       `json:"role" enum:"stranger,scraper,viewer,user,operator,admin" doc:"The role that it gives now."`
	Begun   time.Time    `json:"begun"`
	Used    time.Time    `json:"used" doc:"When it was last used, to the minute."`
	Expires time.Time    `json:"expires" doc:"When it ends, if nobody uses it until then."`
	Current bool         `json:"current,omitempty" doc:"Whether the request was made with it."`
}

// Sessions lists the sessions on the page.
type Sessions struct {
	Sessions []Session `json:"sessions"`
	More
}

// Quota says how much a user may have, and has.
type Quota struct {
	User    string       `json:"user"`
	Role    string       `json:"role,omitempty"`
	Service string       `json:"service,omitempty" doc:"The service that requests belong to which name none."`
	Limits  []QuotaLimit `json:"limits"`
}

// Users lists users with what they hold and have used.
type Users struct {
	Users []UserUse `json:"users" doc:"Everybody who holds something, waits for something, or has used something that the daemon remembers; those who hold most memory first."`
	More
}

// UserUse is what one user holds, waits for and has used.
type UserUse struct {
	User       string              `json:"user" doc:"another user: all those together whose names the caller may not see."`
	Leases     int                 `json:"leases"`
	GPUs       int                 `json:"gpus" doc:"How many devices its leases are on."`
	Memory     gpu.MiB             `json:"memory_mb" doc:"What its leases hold. Parts of a pool count in their pool."`
	Measured   gpu.MiB             `json:"measured_mb" doc:"How much memory the processes of its leases really use."`
	Slots      int                 `json:"slots"`
	Waiting    int                 `json:"waiting" doc:"Requests that wait."`
	Asked      gpu.MiB             `json:"waiting_mb" doc:"Memory that they wait for, on all devices together."`
	Since      *time.Time          `json:"waiting_since,omitempty" doc:"Since when the oldest of them waits."`
	Ended      int                 `json:"ended" doc:"Leases that have ended and that the daemon remembers."`
	LeaseHours float64             `json:"lease_hours" doc:"How long its leases have lasted, one after the other, with the ended ones that the daemon remembers, as the following."`
	GiBHours   float64             `json:"gib_hours" doc:"Memory times time: 1 GiB that is leased for an hour is 1."`
	Energy     gpu.Opt[gpu.Joules] `json:"energy_joules,omitzero" doc:"Energy that its leases have used since the daemon first measured. Absent: none was measured."`
	Limits     []QuotaLimit        `json:"limits,omitempty" doc:"As in the answer of /api/quota. For the user and for operators."`
}

// QuotaLimit is one limit of a user, or of all members of a group together.
type QuotaLimit struct {
	Name   string           `json:"name" example:"memory_mb" doc:"The setting that sets the limit."`
	Limit  gpu.Opt[float64] `json:"limit,omitzero" doc:"In the unit of the setting. Absent: there is no limit."`
	Used   gpu.Opt[float64] `json:"used,omitzero" doc:"How much of it is used now. Absent: the limit is about one request."`
	Group  string           `json:"group,omitempty" doc:"The members of this group have the limit together, and used is what all of them use."`
	Source string           `json:"source" example:"users.alice" doc:"Where the limit comes from: an entry of the configuration, or default."`
}

// TokenRequest asks for a token.
type TokenRequest struct {
	Name    string           `json:"name" example:"grafana" maxLength:"64" doc:"Letters, digits, - and _. Whoever shows the token is the user token:NAME."`
	Role    string           `json:"role" enum:"scraper,viewer,user,operator,admin"`
	Service string           `json:"service,omitempty" maxLength:"128" doc:"Whoever shows the token may act for this service only. Not for operators and administrators."`
	As      string           `json:"as,omitempty" maxLength:"256" doc:"Bind the token to this user of the machine, by login name: whoever shows it is that user, with the role of the token, and can run jobs as that user. Not root. Only an administrator whom the kernel names can, for the role user and higher ones, without a service."`
	TTL     gpu.Opt[float64] `json:"ttl_seconds,omitzero" minimum:"1" maximum:"3153600000" doc:"The token expires after this time. Absent: it does not expire."`
	Secret  string           `json:"token,omitempty" maxLength:"512" doc:"The secret to show, at least 32 printable characters. Absent: the daemon makes one up."`
	Replace bool             `json:"replace,omitempty" doc:"End the token that has this name, and make this one in its place. Without it, a name that is taken is refused, unless the request is the same as that token: then nothing changes."`
}

// Token is a token without its secret, which the daemon does not keep.
type Token struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Service string    `json:"service,omitempty"`
	As      string    `json:"as,omitempty" doc:"Login name of the user that the token is bound to. Absent: nobody."`
	Created time.Time `json:"created,omitzero" doc:"Absent: the token stands in the configuration."`
	Expires time.Time `json:"expires,omitzero" doc:"Absent: it does not expire."`
	Used    time.Time `json:"used,omitzero" doc:"When somebody last showed it, to the minute. Absent: nobody has."`
	By      string    `json:"by,omitempty" doc:"User who created it."`
}

// NewToken is a token with its secret. The daemon shows the secret once.
type NewToken struct {
	Token
	Secret string `json:"token,omitempty" doc:"The secret. Absent: the request had one."`
}

// Tokens lists the tokens that the daemon accepts, by name.
type Tokens struct {
	Tokens []Token `json:"tokens"`
	More
}

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
	What    string            `json:"what" example:"release" doc:"What was done: the verb of berth help roles, or kill, create, rotate, torn, lost."`
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
	Agent   string       `json:"agent,omitempty" doc:"The program that asked in the name of the user, as it calls itself."`
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
