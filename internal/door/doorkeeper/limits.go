package doorkeeper

import (
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

// builtinLimits are the rules of a daemon without configured limits.
var builtinLimits = &quota.Rules{}

// Limits returns the limits of the caller. It computes them once for each connection
// and configuration.
func (c *Caller) Limits() *quota.Limits {
	rules := builtinLimits
	if c != nil && c.rules != nil {
		rules = c.rules()
	}
	if c == nil {
		who := stranger()
		return rules.Of(quota.SubjectOf(&who, nil))
	}
	if found := c.limits.Load(); found != nil && found.Generation == rules.Generation {
		return found
	}
	who := c.standing() // without a name, which may take a while and is not needed here
	var groups []int
	if c.groups != nil && rules.Grouped() && who.UID != access.NoUID {
		groups = c.groups(c.locate)
	}
	found := rules.Of(quota.SubjectOf(&who, groups))
	c.limits.Store(found)
	return found
}

// groups returns the groups of a peer: those that the kernel named with the connection,
// or those of its process, if that can be found. It returns nil if they are not known.
func (d Doorkeeper) groups(p access.Peer, locate func() access.Peer) []int {
	if p.Groups != nil {
		return p.Groups
	}
	found := locate()
	groups, _ := d.Processes.Groups(process.ID{PID: found.PID, Start: found.Start}) // nil if not known
	return groups
}
