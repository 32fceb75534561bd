package doorkeeper

import (
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/door/problems"
	"github.com/berth-gpu/berth/internal/door/sessions"
	"github.com/berth-gpu/berth/internal/when"
)

// errMalformed refuses an Authorization header that holds no token.
var errMalformed = errors.New("the header Authorization holds no token")

// keyOf returns the key that counts the failed tries of a caller: its user or its
// address.
func keyOf(c *Caller) string {
	if c == nil {
		return "unknown"
	}
	if uid, known := c.uid.Get(); known {
		return "uid " + strconv.Itoa(uid)
	}
	address, err := netip.ParseAddr(c.address)
	if err != nil {
		return "unknown"
	}
	return access.From(address)
}

// refuseTry answers a failed try, after a delay.
func (d Doorkeeper) refuseTry(w http.ResponseWriter, r *http.Request, c *Caller, err error, answer refusing) {
	reason, refusal := sessions.TokenUnknown, (*api.Problem)(nil)
	switch {
	case errors.Is(err, errMalformed):
		reason = sessions.TokenMalformed
	case errors.Is(err, tokens.ErrExpired):
		reason = sessions.TokenExpired
	case errors.Is(err, tokens.ErrRevoked):
		reason = sessions.TokenRevoked
	}
	who, delay := d.Tries.Fail(keyOf(c), reason, time.Now())
	if who == nil {
		w.Header().Set("Retry-After", "1")
		problems.Write(w, problems.New(http.StatusTooManyRequests, "too_many_tries", "Too many tries with wrong tokens came from this user or address. Wait a second, and send a valid token."))
		return
	}
	when.Pause(r.Context(), delay)
	d.Tries.LetGo(who)
	switch reason {
	case sessions.TokenExpired:
		refusal = Unauthorized(w, "token_expired", "The token has expired")
	case sessions.TokenRevoked:
		refusal = Unauthorized(w, "token_revoked", "The token was revoked")
	case sessions.TokenMalformed:
		refusal = Unauthorized(w, "unauthorized", "The header Authorization holds no token")
	default:
		refusal = Unauthorized(w, "unauthorized", "The daemon does not know this token")
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="berth", error="invalid_token"`)
	answer(w, r, refusal)
}
