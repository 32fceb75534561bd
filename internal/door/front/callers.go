package front

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/door/front/route"
	"github.com/berth-gpu/berth/internal/door/peercred"
	"github.com/berth-gpu/berth/internal/when"
)

const (
	// callerAge is how long the daemon's word about a caller counts: so long may a token
	// that was revoked still be used.
	callerAge = 10 * time.Second
	// unnamedAge is how long it counts while the user database does not answer.
	unnamedAge = time.Second
	// callerLimit is how long the daemon may take to say who a caller is.
	callerLimit = 5 * time.Second
	// mostCallers is how many callers are remembered.
	mostCallers = 4096
	// mostQuestions is how many questions about callers the daemon gets at a time.
	mostQuestions = 8
)

// callers knows who calls. It asks the daemon, and remembers the answers for a while, and
// for longer if the daemon does not answer.
type callers struct {
	daemon *client.Client

	asking singleflight.Group
	turns  chan struct{} // has room for mostQuestions

	sockets sync.Map // has each uid whose processes the daemon looks at

	mu    sync.Mutex // guards known
	known map[string]known
}

// known is an answer of the daemon about a caller.
type known struct {
	caller api.FrontCaller
	err    error // an *api.Problem
	at     time.Time
}

func newCallers(daemon *client.Client) *callers {
	return &callers{daemon: daemon, turns: make(chan struct{}, mostQuestions), known: map[string]known{}}
}

// Caller is who made a request.
type caller struct {
	api.FrontCaller
	token bool // they showed a token of berth, which says who they are
	keep  bool // the server must not see what they showed
}

// of returns who made a request. A token of berth says who they are. Otherwise they are
// the user of this machine whom the kernel names, and a token that berth does not know is
// for the server. One that is as short as a token of berth that could be guessed is for
// nobody: neither the server nor whoever guesses learns whether it is that one.
func (c *callers) of(r *http.Request) (caller, *route.Refusal) {
	var peer access.Peer
	conn := connOf(r.Context())
	if conn != nil {
		peer = conn.Peer()
	}
	uid := peer.UID
	token, keep := tokenOf(r.Header), false
	if token != "" {
		var who api.FrontCaller
		err := errNoToken
		if tokens.Sound(token) {
			who, err = c.ask(r.Context(), "token "+digest(token), api.FrontWho{Token: token})
		}
		if err == nil {
			if conn != nil {
				conn.Shows(who.User)
			}
			return settle(who, caller{token: true, keep: true})
		}
		switch code := codeOf(err); {
		case code != "unauthorized" && code != "weak_token":
			return caller{}, askedInVain(err) // it may be one of berth
		case !uid.Known():
			return caller{}, refusal(http.StatusUnauthorized, "unauthorized", "The token in the request is not valid here. An administrator makes one with berth token create NAME --role user.")
		default:
			keep = code == "weak_token"
		}
	}
	id, local := uid.Get()
	if !local {
		return caller{}, refusal(http.StatusUnauthorized, "unauthorized", "Callers from other machines need a token of berth with the role user: send Authorization: Bearer TOKEN. An administrator makes one with berth token create NAME --role user.")
	}
	who, err := c.local(r.Context(), id, peer.Inode)
	if err != nil {
		return caller{}, askedInVain(err)
	}
	return settle(who, caller{keep: keep})
}

// errNoToken says what the daemon would of what cannot be a token of berth, such as a key
// that is longer than one may be.
var errNoToken error = &api.Problem{Status: http.StatusUnauthorized, Code: "unauthorized"}

// local asks about a user of this machine. The daemon says whether it has looked at the
// process of the caller, as it does for root, because root of a container is not root.
// Then its answer is about one socket.
func (c *callers) local(ctx context.Context, uid int, inode uint32) (api.FrontCaller, error) {
	asked := api.FrontWho{UID: gpu.Some(uid), Inode: inode}
	if _, looks := c.sockets.Load(uid); !looks {
		who, err := c.ask(ctx, "uid "+strconv.Itoa(uid), asked)
		if err != nil || !who.Socket {
			return who, err
		}
		c.sockets.Store(uid, true) // the answer may be about another socket of the user
	}
	return c.ask(ctx, "socket "+strconv.FormatUint(uint64(inode), 10)+" of uid "+strconv.Itoa(uid), asked)
}

// settle completes a caller, and refuses one who may only look.
func settle(who api.FrontCaller, as caller) (caller, *route.Refusal) {
	if role, err := access.ParseRole(who.Role); err != nil || role < access.User {
		return caller{}, refusal(http.StatusForbidden, "forbidden", "%s has the role %s here, and services need the role user.", called(who.User), who.Role)
	}
	as.FrontCaller = who
	return as, nil
}

// called returns a caller in words: some are known by a number alone, as is root where it
// may be that of a container.
func called(user string) string {
	switch uid, err := strconv.Atoi(user); {
	case err != nil:
		return user
	case uid == 0:
		return "Root, of this machine or of a container,"
	default:
		return "The user with the id " + user
	}
}

// codeOf returns the code with which the daemon refuses, or "".
func codeOf(err error) string {
	if problem := (*api.Problem)(nil); errors.As(err, &problem) {
		return problem.Code
	}
	return ""
}

// askedInVain says that the daemon did not say who a caller is.
func askedInVain(err error) *route.Refusal {
	if problem := (*api.Problem)(nil); errors.As(err, &problem) && problem.Status < 500 {
		return refusal(problem.Status, problem.Code, "%s", problem.Detail)
	}
	return retry(refusal(http.StatusServiceUnavailable, "no_daemon", "The daemon of berth does not say who you are: %v. Look whether it runs: berth doctor.", err), 2)
}

// ask returns the daemon's answer, or a recent one. If the daemon does not answer, an old
// answer counts: nobody can revoke a token then.
func (c *callers) ask(ctx context.Context, key string, who api.FrontWho) (api.FrontCaller, error) {
	c.mu.Lock()
	last, is := c.known[key]
	c.mu.Unlock()
	age := callerAge
	if last.caller.Unnamed {
		age = unnamedAge
	}
	if is && time.Since(last.at) < age {
		return last.caller, last.err
	}
	// The question goes on for others who wait for it if this caller leaves.
	asked := c.asking.DoChan(key, func() (any, error) { return c.question(key, who, !is) })
	select {
	case <-ctx.Done():
		return api.FrontCaller{}, ctx.Err()
	case answer := <-asked:
		if answer.Err != nil {
			if is && !isProblem(answer.Err) {
				return last.caller, last.err
			}
			return api.FrontCaller{}, answer.Err
		}
		return answer.Val.(api.FrontCaller), nil
	}
}

// question asks the daemon and remembers its answer. If patient, it asks again for a while
// if no daemon answers: one may be about to start.
func (c *callers) question(key string, who api.FrontWho, patient bool) (api.FrontCaller, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callerLimit)
	defer cancel()
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return api.FrontCaller{}, ctx.Err()
	}
	answer, err := c.daemon.FrontCaller(ctx, who)
	for wait := 50 * time.Millisecond; patient && err != nil && !isProblem(err); wait *= 2 {
		if when.Pause(ctx, wait); ctx.Err() != nil {
			return answer, err
		}
		answer, err = c.daemon.FrontCaller(ctx, who)
	}
	if err == nil || isProblem(err) {
		c.remember(key, known{answer, err, time.Now()})
	}
	return answer, err
}

// isProblem reports whether the daemon itself said no.
func isProblem(err error) bool {
	problem := (*api.Problem)(nil)
	return errors.As(err, &problem) && problem.Status < 500
}

// remember keeps an answer, and forgets others if there are too many: first those about
// nobody, so that strangers do not take the places of who is known, and then old ones.
func (c *callers) remember(key string, k known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= mostCallers {
		maps.DeleteFunc(c.known, func(_ string, old known) bool { return old.err != nil })
	}
	if len(c.known) >= mostCallers {
		maps.DeleteFunc(c.known, func(_ string, old known) bool { return k.at.Sub(old.at) >= callerAge })
	}
	if len(c.known) >= mostCallers {
		clear(c.known)
	}
	c.known[key] = k
}

// tokenOf returns the token that a request shows, as clients of OpenAI or of Anthropic do.
func tokenOf(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && token != "" {
		return strings.TrimSpace(token)
	}
	return h.Get("X-Api-Key")
}

// digest stands for a token in memory.
func digest(token string) string {
	sum := sha256.Sum256([]byte(token))
	return string(sum[:])
}

// connKey is the key of a connection in its context.
type connKey struct{}

// connOf returns the connection of a request, or nil if it came over none.
func connOf(ctx context.Context) *peercred.Conn {
	conn, _ := ctx.Value(connKey{}).(*peercred.Conn)
	return conn
}

// withConn notes a new connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if outer, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = outer.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}
