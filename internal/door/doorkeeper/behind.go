package doorkeeper

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/door/problems"
)

// Behind says who a caller of the front is. A user of this machine has the role that it
// has over TCP. A token that could be guessed counts for nothing there: the daemon does
// not see how often somebody tries.
func (d Doorkeeper) Behind(who api.FrontWho, now time.Time) (api.FrontCaller, error) {
	if who.Token != "" {
		return d.behindToken(who.Token, now)
	}
	uid, known := who.UID.Get()
	if !known || uid < 0 {
		return api.FrontCaller{}, problems.New(http.StatusUnprocessableEntity, "invalid_request", "Say who calls: a token, or a uid.")
	}
	p := access.Peer{Caller: access.Caller{Door: access.TCP, UID: access.KnownUID(uid)}, Inode: who.Inode}
	rules := d.Rules()
	byProcess := uid == 0 || rules.ContainersNeedToken // as for callers of the daemon itself
	if byProcess && who.Inode != 0 {
		p = d.Kernel.Find(p)
	}
	a, named := d.identity(rules, p, "")
	caller := api.FrontCaller{User: a.User, Role: a.Role.String(), Socket: byProcess, Unnamed: !named}
	if a.UID == access.NoUID { // root of a container
		caller.User = strconv.Itoa(uid)
	}
	return caller, nil
}

// behindToken says who shows a token to the front. The front passes a token that is
// unknown on to a server, so only what is no token of berth may be called so. While there
// is a token that could be guessed, whatever is as short gets the same answer as that one:
// the daemon does not see how often somebody tries.
func (d Doorkeeper) behindToken(secret string, now time.Time) (api.FrontCaller, error) {
	refuse := func(code, why string) (api.FrontCaller, error) {
		return api.FrontCaller{}, problems.New(http.StatusUnauthorized, code, "%s. An administrator makes another with berth token create.", why)
	}
	if d.Tokens.Weak() && len(secret) < tokens.ShortestSecret {
		return refuse("weak_token", "The token is too short to count here")
	}
	found, err := d.Tokens.Check(secret, now)
	switch {
	case errors.Is(err, tokens.ErrExpired):
		return refuse("token_expired", "The token has expired")
	case errors.Is(err, tokens.ErrRevoked):
		return refuse("token_revoked", "The token was revoked")
	case err != nil:
		return refuse("unauthorized", "The token is not valid here")
	}
	holder, err := d.holding(nil, found.Credential)
	if err != nil {
		return api.FrontCaller{}, err
	}
	a := holder.Identity().Actor
	return api.FrontCaller{User: a.User, Role: a.Role.String(), Service: a.Service}, nil
}
