package kinship

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// Mandate says in whose name berth acts on processes, and so which of them the act
// reaches. Everything that signals, stops or parks a process needs one. The zero Mandate
// reaches no process.
//
// The attacker is a user who makes root end what the user may not: a program that sudo,
// su or a set-user-id program started below the user's own lease.
type Mandate struct {
	All  bool         `json:"all,omitempty"` // the act of an operator, or of a policy of the daemon
	User gpu.Opt[int] `json:"user,omitzero"` // otherwise the uid of the user; absent means nobody

	// Minder is a process that the act reaches whatever its user: berth started it for the
	// user, and it belongs to root until it has become that user.
	Minder ID `json:"minder,omitzero"`
}

// Authority returns the mandate of operators and of the daemon's policies, which reaches
// every process.
func Authority() Mandate { return Mandate{All: true} }

// OfUser returns the mandate of a user. A user without a uid reaches nothing.
func OfUser(uid int) Mandate {
	if uid == access.NoUID {
		return Mandate{}
	}
	return Mandate{User: gpu.Some(uid)}
}

// MandateOf returns the mandate of an actor: Authority if the actor may end the leases of
// everybody, that of the user for other users, and otherwise one that reaches nothing.
func MandateOf(by access.Actor) Mandate {
	switch {
	case access.May(by, access.Revoke, access.Everything()) == nil:
		return Authority()
	case by.Role < access.User: // the zero actor has the uid of root
		return Mandate{}
	}
	return OfUser(by.UID)
}

// UIDs are the user ids of a process.
type UIDs struct{ Real, Effective, Saved int }

// Reaches reports whether an act reaches a process with these user ids. A user reaches
// the processes that kill(2) lets the user signal: those with the user's real or saved
// uid, and for root every process.
func (m Mandate) Reaches(id ID, u UIDs) bool {
	user, known := m.User.Get()
	return m.All || m.Minder.PID != 0 && id == m.Minder || known && (user == 0 || user == u.Real || user == u.Saved)
}

// OneUser reports whether all user ids of all processes are those of one user who is not
// root.
func OneUser(all []UIDs) bool {
	for _, u := range all {
		if u != (UIDs{u.Real, u.Real, u.Real}) || u.Real == 0 || u != all[0] {
			return false
		}
	}
	return true
}
