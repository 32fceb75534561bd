package access

import (
	"errors"
	"strings"
)

// Actor is the user or program that does something. It is plain data: it travels with a
// request, and the journal and the events name it. The zero value is nobody, who may do
// nothing.
type Actor struct {
	User  string // login name, or the number as text
	UID   int    // NoUID if the kernel did not say
	Token string // name of the token that the actor showed, if any
	Door  Door   // empty if not known
	Role  Role

	Service string // the only service that the actor may act for; empty means any
	Address string // source of a TCP connection; empty if not known, or not TCP
	Agent   string // the program for which the actor says to act; it gives no rights
}

// NoUID stands for a user who is not known by a user id.
const NoUID = -1

// DaemonToken is the name of the token that the daemon is started with.
const DaemonToken = "daemon"

// Daemon returns the actor for what the daemon does by itself.
func Daemon() Actor { return Actor{UID: NoUID, Door: Itself, Role: Admin} }

// Verb is something that an actor does.
type Verb int

// The verbs. The zero value is none, which nobody may do.
const (
	none        Verb = iota
	Probe            // ask whether the daemon lives
	SignIn           // begin a session on the page, and end it
	SignOut          // end another session
	Scrape           // read the metrics
	Look             // look at devices, sums, leases and batches, without what is private
	Name             // see which users others are
	Inspect          // see all of an object: its programs, paths and processes
	Lease            // ask for a lease, and plan
	Adopt            // put a running process under a lease
	Speak            // speak for a process: lease for it, hand a lease to it
	Renew            // make a lease last longer
	Bind             // hand a lease to another process
	Resize           // make a lease larger or smaller
	Release          // end a lease
	Cancel           // end the programs of a lease, and the lease with them
	Scope            // say which control groups a lease covers
	Admit            // lease exactly what another scheduler has decided, without the queue
	Trim             // ask the holder of a lease for unused memory
	Park             // move the memory of a lease off its devices
	Resume           // move the memory of a parked lease back
	Pace             // hold a lease to a share of its devices
	Optimize         // get memory back from leases
	Withdraw         // take a request out of the queue
	Report           // report how far a batch is, and what a run used
	Submit           // have berth run a program
	Hold             // keep a job from beginning, let it go, or change its priority
	Mind             // run the command of a job for the daemon; only for its own minders
	Serve            // start, stop or move the program of a service
	Front            // take the requests for services; only for the user of the front
	Revoke           // end a lease against the will of its holder
	Precede          // go before others in the queue
	Exceed           // go beyond the limits of a user
	Configure        // change thresholds and priorities
	Govern           // change what ends processes, what the daemon runs, limits and roles
	Monitor          // switch monitoring on and off
	Drain            // take devices out of use, and back
	Check            // test whether a device works
	Acknowledge      // take care of an alert
	Hook             // see the hooks and their deliveries
	Entrust          // make and revoke tokens
	Audit            // read the log of acts of authority
	Backup           // copy the state of the daemon
)

// rule says who may do what a verb names.
type rule struct {
	name   string
	least  Role // the least role for an object of the actor's own, or nobody's
	others Role // the least role for an object of somebody else
}

var rules = [...]rule{
	none:        {"none", Admin + 1, Admin + 1}, // roles that do not exist
	Probe:       {"probe", Stranger, Stranger},
	SignIn:      {"sign-in", Stranger, Stranger},
	SignOut:     {"sign-out", Viewer, Admin},
	Scrape:      {"scrape", Scraper, Scraper},
	Look:        {"look", Viewer, Viewer},
	Name:        {"name", User, User},
	Inspect:     {"inspect", Viewer, Operator},
	Lease:       {"lease", User, User},
	Adopt:       {"adopt", User, Operator},
	Speak:       {"speak", User, Operator},
	Renew:       {"renew", User, Operator},
	Bind:        {"bind", User, Operator},
	Resize:      {"resize", User, Operator},
	Release:     {"release", User, Operator},
	Cancel:      {"cancel", User, Operator},
	Scope:       {"scope", Operator, Operator},
	Admit:       {"admit", Operator, Operator},
	Trim:        {"trim", User, Operator},
	Park:        {"park", User, Operator},
	Resume:      {"resume", User, Operator},
	Pace:        {"pace", User, Operator},
	Optimize:    {"optimize", User, Operator},
	Withdraw:    {"withdraw", User, Operator},
	Report:      {"report", User, User},
	Submit:      {"submit", User, User},
	Hold:        {"hold", User, Operator},
	Mind:        {"mind", User, User},
	Serve:       {"serve", User, Operator},
	Front:       {"front", Viewer, Viewer},
	Revoke:      {"revoke", Operator, Operator},
	Precede:     {"precede", Operator, Operator},
	Exceed:      {"exceed", Admin, Admin},
	Configure:   {"configure", Operator, Operator},
	Govern:      {"govern", Admin, Admin},
	Monitor:     {"monitor", Operator, Operator},
	Drain:       {"drain", Operator, Operator},
	Check:       {"check", Operator, Operator},
	Acknowledge: {"acknowledge", Operator, Operator},
	Hook:        {"hook", Operator, Operator},
	Entrust:     {"entrust", Admin, Admin},
	Audit:       {"audit", Admin, Admin},
	Backup:      {"backup", Admin, Admin},
}

// Verbs returns every verb, in the order above.
func Verbs() []Verb {
	var all []Verb
	for v := Probe; int(v) < len(rules); v++ {
		all = append(all, v)
	}
	return all
}

// rule returns the rule of a verb, or that of none.
func (v Verb) rule() *rule {
	if v < Probe || int(v) >= len(rules) {
		v = none
	}
	return &rules[v]
}

// String returns the verb in one word.
func (v Verb) String() string { return v.rule().name }

// Least returns the least roles that may do the verb to an object of the actor's own or
// nobody's, and to an object of somebody else. For a verb without a rule, which nobody
// may do, it returns roles that do not exist.
func (v Verb) Least() (own, others Role) { return v.rule().least, v.rule().others }

// Kind is the kind of an object.
type Kind int

// The kinds. The zero value belongs to nobody in particular.
const (
	Machine   Kind = iota // the devices, the daemon and its settings
	Held                  // a lease
	Asked                 // a request that waits
	Process               // a process of the machine
	Batch                 // a batch that reports
	Happening             // an event about a user
	Measured              // what a run of a user used
	SignedIn              // a session on the page
	All                   // the things of all users together
)

// Object is the thing that a verb acts on.
type Object struct {
	Kind   Kind
	UID    int    // of the owner; NoUID if the owner has none
	User   string // login name of the owner; empty if not known
	ByName bool   // only the name of the owner is known; ignore UID
}

// Everything returns the object that stands for the things of all users.
func Everything() Object { return Object{Kind: All, UID: NoUID} }

// Of returns an object with an owner. An owner without a uid is identified by name, among
// those who have no uid either.
func Of(kind Kind, uid int, user string) Object { return Object{Kind: kind, UID: uid, User: user} }

// Named returns an object for which only the login name of its owner is known.
func Named(kind Kind, user string) Object {
	return Object{Kind: kind, UID: NoUID, User: user, ByName: true}
}

// belongsTo reports whether the object belongs to a, or to nobody.
func (o *Object) belongsTo(a *Actor) bool {
	switch {
	case o.Kind == Machine:
		return true
	case o.Kind == All:
		return false
	case o.ByName: // a name with a colon belongs to a token or certificate, never to a user of the machine
		return o.User != "" && o.User == a.User && (a.UID != NoUID || strings.Contains(a.User, ":"))
	}
	return o.UID == a.UID && (o.UID != NoUID || o.User == a.User)
}

// Owns reports whether an object belongs to a, or to nobody. To act on an object of
// somebody else is an act of authority.
func Owns(a Actor, o Object) bool { return o.belongsTo(&a) }

// May returns nil if an actor may do something to an object, or a *Refusal that
// says why not.
func May(a Actor, v Verb, o Object) error {
	switch r := v.rule(); {
	case r == &rules[none]:
		return noRule
	case a.Role < r.least && a.Role == Stranger:
		return private
	case a.Role < r.least && a.Role == Viewer && a.UID == NoUID && a.Token == "" && r.least == User:
		return notKnown
	case a.Role < r.least && r.least > User && a.Door == TCP && a.Token == "" && a.UID != NoUID:
		return overTCP[r.least]
	case a.Role < r.least:
		return tooLow[r.least]
	case a.Role < r.others && !o.belongsTo(&a):
		return &Refusal{Reason: NotYours, Owner: o.User, Needs: r.others}
	}
	return nil
}

// Refusal says why an actor may not do something.
type Refusal struct {
	Reason Reason
	Owner  string // of the object, for NotYours; empty if not known
	Needs  Role   // the least role that may do it; Stranger if none may
}

// Reason is why an actor may not do something.
type Reason int

// The reasons.
const (
	NoRule   Reason = iota // nobody may: there is no rule for it
	Private                // the daemon is another user's, or asks for a token
	NotKnown               // the daemon cannot tell who the actor is
	TooLow                 // the role of the actor is too low
	OverTCP                // the same, for a user of the machine who calls over TCP without a token
	NotYours               // the object is somebody else's
)

// These refusals are the same for everybody, so that May need not allocate them: berth
// calls it several times for every lease.
var (
	noRule   = &Refusal{Reason: NoRule}
	private  = &Refusal{Reason: Private, Needs: Viewer}
	notKnown = &Refusal{Reason: NotKnown, Needs: User}
	tooLow   = ofRoles(TooLow)
	overTCP  = ofRoles(OverTCP)
)

// ofRoles returns the refusals with a reason for each role that may be needed.
func ofRoles(why Reason) (all [Admin + 1]*Refusal) {
	for r := range all {
		all[r] = &Refusal{Reason: why, Needs: Role(r)}
	}
	return all
}

// ErrNotYours is the error that every refusal because of the owner wraps.
var ErrNotYours = errors.New("it belongs to somebody else")

// Error returns the reason in words for people.
func (r *Refusal) Error() string {
	switch r.Reason {
	case Private:
		return "the daemon does not serve you: it is private to the user who runs it, or wants a token from you. Run a daemon of your own, or call with a token that has the role viewer or a higher one. Nothing was changed"
	case NotKnown:
		return "this needs the role user, and the daemon cannot tell who you are, so you may only look. Call over its Unix socket from outside of a container, or with a token. Nothing was changed"
	case TooLow:
		return "this needs the role " + r.Needs.String() + ": berth whoami shows yours, and why. An administrator gives roles in berth.yaml, or makes a token. Nothing was changed"
	case OverTCP:
		return "this needs the role " + r.Needs.String() + ", and over TCP without a token nobody has more than the role user, not even root. Send a token (berth token create NAME --role " + r.Needs.String() + " makes one), or call over the Unix socket of the daemon. Nothing was changed"
	case NotYours:
		owner := ""
		if r.Owner != "" {
			owner = ": " + r.Owner
		}
		return ErrNotYours.Error() + owner + "; its owner and the role " + r.Needs.String() + " may do this"
	}
	return "nobody may do this: the daemon has no rule for it"
}

// Unwrap returns ErrNotYours if that is the reason.
func (r *Refusal) Unwrap() error {
	if r.Reason == NotYours {
		return ErrNotYours
	}
	return nil
}
