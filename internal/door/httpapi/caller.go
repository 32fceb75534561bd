package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/fair"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

// standingOf returns the actor who makes a request, without waiting for a name.
func standingOf(ctx context.Context) access.Actor { return doorkeeper.Of(ctx).Standing() }

// identityOf returns the identity of the caller of a request. It may wait a moment for
// the name of the user.
func identityOf(ctx context.Context) doorkeeper.Identity { return doorkeeper.Of(ctx).Identity() }

// limitsOf returns the limits of the caller of a request.
func limitsOf(ctx context.Context) *quota.Limits { return doorkeeper.Of(ctx).Limits() }

// askerOf returns the caller of a request in the form that the desk takes.
func askerOf(ctx context.Context) desk.Caller {
	c := doorkeeper.Of(ctx)
	who := c.Identity()
	by := desk.Caller{Actor: who.Actor, Holder: who.Holder, PIDs: pids{of: c}, Certain: c.Certain()}
	by.Agent, _ = ctx.Value(agentKey{}).(string)
	if !exceeds(who.Actor) {
		by.Limits = c.Limits()
	}
	if t, has := ctx.Value(placeKey{}).(*fair.Place); has {
		by.Place = t
	}
	return by
}

// agentKey is the context key of the program for which a caller says to act.
type agentKey struct{}

// longestAgent is the most bytes of the name of such a program.
const longestAgent = 64

// noteAgent notes the program for which the caller says to act: an assistant with the
// rights of its user. Its name gives no rights.
func noteAgent(r *http.Request) *http.Request {
	escaped := r.Header.Get("Berth-Agent")
	if escaped == "" {
		return r
	}
	name, err := url.QueryUnescape(escaped)
	if err != nil || !utf8.ValidString(name) {
		name = "an agent with an unreadable name"
	}
	name = strings.Join(strings.Fields(strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, name)), " ")
	for len(name) > longestAgent {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return r.WithContext(context.WithValue(r.Context(), agentKey{}, name))
}

// pids knows the processes of a caller.
type pids struct{ of *doorkeeper.Caller }

// Self adds the process of the caller to a holder, if that is certain.
func (p pids) Self(h lease.Holder) lease.Holder { return p.of.Self(h) }

// Here returns the pid that a process has on this machine, from the pid that the
// caller sent. In a container that pid means another process, so Here refuses it
// if the PID namespace of the caller is not known.
func (p pids) Here(pid int) (int, error) {
	from := p.of.Located()
	switch {
	case from.Place == access.Here:
		return pid, nil
	case from.Namespace != "":
		here, err := process.Proc().InNamespace(from.Namespace, pid)
		if err != nil {
			return 0, desk.Refuse(desk.Conflict, "process_gone", "The daemon sees no process %d in the PID namespace of the caller. Let the process ask for its lease itself, over the Unix socket.", pid)
		}
		return here, nil
	}
	return 0, desk.Refuse(desk.Forbidden, "process_not_known",
		"The daemon cannot tell which process %d is: it does not know the PID namespace of the caller. Ask over the Unix socket, or let the process ask for its lease itself.", pid)
}
