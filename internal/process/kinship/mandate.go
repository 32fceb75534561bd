package kinship

import (
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
)

// Mandate says in whose name berth acts on processes, and so which of them the
// act reaches. Whatever signals, stops or parks a process needs one. The zero
// Mandate reaches no process.
//
// The attacker is a user who lets root end what the user may not: a program that
// sudo, su or a set-user-id program started below the user's own lease.
type Mandate struct {
	All  bool         `json:"all,omitempty"` // that of an operator, or of a policy of the daemon
	User gpu.Opt[int] `json:"user,omitzero"` // otherwise the uid of the user; absent: nobody's
}

// Authority returns the mandate of operators and of the daemon's policies, which
// reaches every process.
func Authority() Mandate { return Mandate{All: true} }

// OfUser returns the mandate of a user. A user without a uid reaches nothing.
func OfUser(uid int) Mandate {
	if uid == access.NoUID {
		return Mandate{}
	}
	return Mandate{User: gpu.Some(uid)}
}

// MandateOf returns the mandate of what an actor does: that of authority for those
// who may end the leases of everybody, and that of the user for other users.
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

// Reaches reports whether an act reaches a process with these user ids. A user
// reaches what kill(2) lets the user signal: processes whose real or saved uid is
// the user's own, and root every process.
func (m Mandate) Reaches(u UIDs) bool {
	user, known := m.User.Get()
	return m.All || known && (user == 0 || user == u.Real || user == u.Saved)
}

// OneUser reports whether all processes are of one user who is not root, with all
// their user ids.
func OneUser(all []UIDs) bool {
	for _, u := range all {
		if u != (UIDs{u.Real, u.Real, u.Real}) || u.Real == 0 || u != all[0] {
			return false
		}
	}
	return true
}
