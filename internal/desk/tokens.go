package desk

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/audit"
	"github.com/berth-gpu/berth/internal/text/words"
)

// longestTTL is the longest time to live of a token.
const longestTTL = 100 * 365 * 24 * time.Hour

// ListTokens returns the tokens that the daemon accepts, and those that have expired a while
// ago, by name.
func (d *People) ListTokens() api.Tokens {
	all := api.Tokens{Tokens: []api.Token{}}
	for _, t := range d.tokens.List() {
		if t.Listed(time.Now()) {
			all.Tokens = append(all.Tokens, tokenOf(t))
		}
	}
	return all
}

func tokenOf(t tokens.Token) api.Token {
	return api.Token{Name: t.Name, Role: t.Role.String(), Service: t.Service, As: t.As, Created: t.Created, Expires: t.Expires, Used: t.Used, By: t.By}
}

// CreateToken makes a token that gives at most the role of its maker. The answer
// has its secret, unless the request brought one.
func (d *People) CreateToken(by Caller, b api.TokenRequest) (api.NewToken, error) {
	if err := access.May(by.Actor, access.Entrust, access.Object{}); err != nil {
		return api.NewToken{}, Refused(fmt.Errorf("create a token: %w", err))
	}
	role, err := access.ParseRole(b.Role)
	if err != nil {
		return api.NewToken{}, wrongFields(lease.FieldErrors{{Field: "role", Detail: err.Error()}})
	}
	if role > by.Role {
		return api.NewToken{}, Refuse(Forbidden, "not_allowed", "A token gives at most your own role, which is %s. Nothing was changed.", by.Role)
	}
	now := time.Now()
	t := tokens.Token{Name: b.Name, Role: role, Service: b.Service, As: b.As, By: by.User}
	if b.As != "" {
		if t.UID, err = d.bindable(&by, b.As); err != nil {
			return api.NewToken{}, err
		}
	}
	if seconds, given := b.TTL.Get(); given {
		if !(seconds >= 1 && seconds <= longestTTL.Seconds()) {
			detail := fmt.Sprintf("must be between 1 and %.0f", longestTTL.Seconds())
			return api.NewToken{}, wrongFields(lease.FieldErrors{{Field: "ttl_seconds", Detail: detail}})
		}
		t.Expires = now.Add(lease.Seconds(seconds))
	}
	prolongs := b.Replace && b.TTL.Known()
	if !prolongs && d.tokens.Stands(t, b.Secret, now) { // the request was made before, so there is nothing to do
		return d.madeToken(b.Name, ""), nil
	}
	secret := ""
	err = d.record.act(tokenAct(&by, "create", t), func() (err error) {
		create := d.tokens.Create
		if b.Replace {
			create = d.tokens.Replace
		}
		secret, err = create(t, b.Secret, now)
		return err
	})
	if err != nil {
		return api.NewToken{}, refusedToken(err)
	}
	if b.Secret != "" {
		secret = ""
	}
	return d.madeToken(b.Name, secret), nil
}

// bindable returns the uid of a user that a caller may bind a token to. With the token,
// programs run as that user, so a token must not make another: only a caller for whom
// programs may be run without one can.
func (d *People) bindable(by *Caller, user string) (uid int, err error) {
	daemon := os.Geteuid()
	if by.Token != "" || refuseRun(by, false, daemon, d.processes.SeesOurFiles) != nil {
		return 0, Refuse(Forbidden, "cannot_bind", "Only an administrator whom the kernel names binds a token to a user: call over the Unix socket from this machine, outside of containers and without a token, or from your session on the page (not as root). Nothing was changed.")
	}
	wrong := func(format string, args ...any) error {
		return wrongFields(lease.FieldErrors{{Field: "as", Detail: fmt.Sprintf(format, args...)}})
	}
	shown := words.Cut(user, 64)
	uid, _, known := d.users.Account(user)
	switch {
	case !known:
		return 0, wrong("is %q, and this machine has no user of that name, or the user database does not answer; getent passwd lists the users", shown)
	case uid == 0:
		return 0, wrong("is %q, who is root; no token is bound to root", shown)
	case d.users.Of(uid) != user:
		return 0, wrong("is %q, and the user database calls the user with the uid %d %s; write that name", shown, uid, d.users.Of(uid))
	case daemon != 0 && uid != daemon:
		return 0, wrong("is %q, and this daemon is not root: it runs programs only as the user who runs it", shown)
	}
	return uid, nil
}

// madeToken returns the token with a name, and its secret, which is shown only now.
func (d *People) madeToken(name, secret string) api.NewToken {
	made := api.NewToken{Secret: secret}
	for _, t := range d.tokens.List() {
		if t.Name == name {
			made.Token = tokenOf(t)
		}
	}
	return made
}

// RevokeToken makes the daemon refuse a token from now on, and returns it.
func (d *People) RevokeToken(by Caller, name string) (api.Token, error) {
	if err := access.May(by.Actor, access.Entrust, access.Object{}); err != nil {
		return api.Token{}, Refused(fmt.Errorf("revoke the token %s: %w", name, err))
	}
	if name == access.DaemonToken {
		return api.Token{}, Refuse(Conflict, "configured_token", "The token daemon stands in the configuration. Remove daemon.token or daemon.token_file there, and restart the daemon.")
	}
	known := d.tokens.List()
	at := slices.IndexFunc(known, func(t tokens.Token) bool { return t.Name == name })
	if at < 0 {
		names := make([]string, len(known))
		for i, t := range known {
			names[i] = t.Name
		}
		meant := ""
		if near, ok := words.Nearest(name, names); ok {
			meant = ": did you mean " + near + "?"
		}
		return api.Token{}, refusedToken(fmt.Errorf("revoke the token %s: %w%s", name, tokens.ErrMissing, meant))
	}
	t := known[at]
	err := d.record.act(tokenAct(&by, access.Revoke.String(), t), func() (err error) {
		t, err = d.tokens.Revoke(name, time.Now())
		return err
	})
	if err != nil {
		return api.Token{}, refusedToken(err)
	}
	return tokenOf(t), nil
}

// refusedToken returns the refusal for an error of package tokens.
func refusedToken(err error) *Refusal {
	wrong := (*tokens.InvalidError)(nil)
	switch {
	case errors.Is(err, audit.ErrUnavailable):
		return Refused(err)
	case errors.As(err, &wrong):
		return wrongFields(lease.FieldErrors{{Field: wrong.Field, Detail: wrong.Detail}})
	case errors.Is(err, tokens.ErrMissing):
		return because(err, Unknown, "unknown_token", "berth token list (GET /api/tokens) lists those there are.")
	case errors.Is(err, tokens.ErrTaken):
		return because(err, Conflict, "duplicate_token", "Revoke or replace that token, or use another name or secret.")
	case errors.Is(err, tokens.ErrFull):
		return because(err, Crowded, "too_many_tokens", "")
	}
	return because(err, Unavailable, "tokens_not_written", "Look at the disk of the state folder; then try again.")
}
