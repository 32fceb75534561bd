package doorkeeper

import (
	"cmp"
	"errors"
	"os/user"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/desk/tokens"
)

// The front passes on what is called unknown, so nothing that is or was a token may be; and
// nobody who guesses learns from the answer whether a short one is right.
func TestTokensBehindTheFront(t *testing.T) {
	k, now := tokens.New(), time.Now()
	create := func(name string, expires time.Time) string {
		secret, err := k.Create(tokens.Token{Name: name, Role: access.User, Expires: expires}, "", now)
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	good, old, gone := create("good", time.Time{}), create("old", now.Add(time.Hour)), create("gone", time.Time{})
	if _, err := k.Revoke("gone", now); err != nil {
		t.Fatal(err)
	}
	d := Doorkeeper{Tokens: k}
	now = now.Add(2 * time.Hour)
	code := func(secret string) string {
		_, err := d.Behind(api.FrontWho{Token: secret}, now)
		if problem := (*api.Problem)(nil); errors.As(err, &problem) {
			return strconv.Itoa(problem.Status) + " " + problem.Code
		}
		return "200"
	}
	const long = "sk-0123456789-0123456789-0123456789"
	for _, daemon := range []string{"", "adminpw12345", strings.Repeat("0123456789", 4)} {
		k.SetDaemon(daemon)
		short := "401 unauthorized"
		if daemon == "adminpw12345" {
			short = "401 weak_token"
		}
		for secret, want := range map[string]string{good: "200", old: "401 token_expired", gone: "401 token_revoked", long: "401 unauthorized", "adminpw12345": short, "adminpw12346": short, "EMPTY": short} {
			if got := code(secret); got != want {
				t.Errorf("%s with daemon.token %q: %s, want %s", secret, daemon, got, want)
			}
		}
	}
}

// slowNames has no name in time.
type slowNames struct{ passwd }

func (slowNames) Settled(int) bool { return false }

// A connection outlives the moment in which its user had no name.
func TestANameThatComesLate(t *testing.T) {
	answers := map[int]string{}
	keeper := Doorkeeper{Names: late{answers}, Rules: func() *access.Rules { return none }}
	c := keeper.Caller(access.Peer{Caller: access.Caller{Door: access.Socket, UID: access.KnownUID(1001), Place: access.Here}}, "")
	for _, want := range []string{"1001", "ada", "ada"} {
		if got := c.Identity().User; got != want {
			t.Errorf("the caller is %s, want %s", got, want)
		}
		answers[1001] = "ada"
	}
}

// late is a user database whose answers come late.
type late struct{ answers map[int]string }

func (l late) Of(uid int) string { return cmp.Or(l.answers[uid], strconv.Itoa(uid)) }

func (l late) Settled(uid int) bool { return l.answers[uid] != "" }

func (late) AccountOf(name string) (int, []int, error) { return 0, nil, user.UnknownUserError(name) }

func TestAUserWithoutANameBehindTheFront(t *testing.T) {
	for _, c := range []struct {
		names   Names
		unnamed bool
	}{{passwd{}, false}, {slowNames{}, true}, {slowNames{passwd{"ada": 1001}}, false}} {
		d := Doorkeeper{Names: c.names, Rules: func() *access.Rules { return &access.Rules{} }}
		who, err := d.Behind(api.FrontWho{UID: gpu.Some(1001)}, time.Now())
		if err != nil || who.Unnamed != c.unnamed {
			t.Errorf("%T: %+v, %v", c.names, who, err)
		}
	}
}
