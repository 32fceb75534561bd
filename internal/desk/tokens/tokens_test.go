package tokens

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/access"
)

var now = time.Date(2026, 11, 15, 12, 0, 30, 0, time.UTC)

func create(t *testing.T, k *Tokens, token Token, brought string) string {
	t.Helper()
	secret, err := k.Create(token, brought, now)
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func open(t *testing.T, path string) *Tokens {
	t.Helper()
	k, damage := Open(path)
	if damage != nil {
		t.Fatal(damage)
	}
	return k
}

// A token survives a restart, with everything but its secret.
func TestATokenIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	k := open(t, path)
	secret := create(t, k, Token{Name: "grafana", Role: access.Scraper, By: "root", Expires: now.Add(time.Hour)}, "")
	own := create(t, k, Token{Name: "embedder", Role: access.User, Service: "embedding_service", By: "root"}, "0123456789abcdefghijklmnopqrstuv")
	if !regexp.MustCompile(`^berth_[A-Za-z0-9_-]{43}$`).MatchString(secret) || own != "0123456789abcdefghijklmnopqrstuv" {
		t.Errorf("the secrets are %q and %q", secret, own)
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Contains(text, []byte(secret)) || bytes.Contains(text, []byte(own)) {
		t.Errorf("the file holds a secret, or is not there: %v: %s", err, text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	k = open(t, path)
	shown, err := k.Check(secret, now)
	want := access.Credential{Kind: access.Token, Name: "grafana", Role: access.Scraper}
	if err != nil || shown.Credential != want || shown.Weak {
		t.Errorf("it gives %+v, %v", shown, err)
	}
	if shown, err := k.Check(own, now); err != nil || shown.Service != "embedding-service" || shown.Role != access.User {
		t.Errorf("it gives %+v, %v", shown, err)
	}
	created := now.Truncate(time.Second)
	all := []Token{
		{Name: "embedder", Role: access.User, Service: "embedding-service", By: "root", Created: created, Used: now.Truncate(time.Minute)},
		{Name: "grafana", Role: access.Scraper, By: "root", Created: created, Expires: now.Add(time.Hour), Used: now.Truncate(time.Minute)},
	}
	if diff := cmp.Diff(all, k.List()); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	if err := k.saveUsed(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(all, open(t, path).List()); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}

// Whoever has the wrong secret learns nothing; whoever had the right one learns
// what became of the token.
func TestRefusals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	k := open(t, path)
	short := create(t, k, Token{Name: "short", Role: access.User, Expires: now.Add(time.Minute)}, "")
	gone := create(t, k, Token{Name: "gone", Role: access.Admin}, "")
	stands, err := k.Check(gone, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Revoke("gone", now); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(context.Cause(stands.Standing), ErrRevoked) {
		t.Error("whoever shows a revoked token is not told")
	}
	if _, err := k.Revoke("gone", now); !errors.Is(err, ErrMissing) {
		t.Errorf("revoked twice: %v", err)
	}
	for _, k := range []*Tokens{k, open(t, path)} {
		for secret, want := range map[string]error{
			gone: ErrRevoked, "": ErrUnknown, "berth_": ErrUnknown, short + "x": ErrUnknown, short[1:]: ErrUnknown,
			strings.Repeat("x", 16<<10): ErrUnknown, "\x00\xff": ErrUnknown, short: nil,
		} {
			if _, err := k.Check(secret, now.Add(59*time.Second)); !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", secret, err, want)
			}
		}
		if _, err := k.Check(short, now.Add(time.Minute)); !errors.Is(err, ErrExpired) {
			t.Errorf("after its time: %v", err)
		}
	}
	// The name is free again; the secret never is.
	if _, err := k.Create(Token{Name: "gone", Role: access.User}, gone, now); !errors.Is(err, ErrTaken) {
		t.Errorf("the secret of a revoked token was taken: %v", err)
	}
	create(t, k, Token{Name: "gone", Role: access.User}, "")
}

// A token that replaces another has its name; the other one is refused at once and
// after a restart, and its secret is never good again.
func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	k := open(t, path)
	first, second := "0123456789abcdefghijklmnopqrstuv", "vutsrqponmlkjihgfedcba9876543210"
	token := Token{Name: "kubernetes", Role: access.Operator}
	if k.Stands(token, first, now) {
		t.Error("a token stands that nobody made")
	}
	if _, err := k.Replace(token, first, now); err != nil {
		t.Fatal("nothing to replace:", err)
	}
	shown, err := k.Check(first, now)
	if err != nil || !k.Stands(token, first, now) || k.Stands(token, second, now) || k.Stands(token, "", now) || k.Stands(Token{Name: "kubernetes", Role: access.User}, first, now) ||
		k.Stands(Token{Name: "kubernetes", Role: access.Operator, Expires: now}, first, now) {
		t.Errorf("the first token: %+v, %v", shown, err)
	}
	if _, err := k.Create(token, second, now); !errors.Is(err, ErrTaken) || shown.Standing.Err() != nil {
		t.Errorf("created over the first: %v", err)
	}
	if _, err := k.Replace(token, second, now); err != nil || shown.Standing.Err() == nil {
		t.Errorf("replaced: %v, and whoever showed the first one goes on: %v", err, shown.Standing.Err() == nil)
	}
	again := open(t, path)
	for _, k := range []*Tokens{k, again} {
		if _, err := k.Check(first, now); !errors.Is(err, ErrRevoked) {
			t.Errorf("the first secret: %v", err)
		}
		if got, err := k.Check(second, now); err != nil || got.Name != "kubernetes" || got.Role != access.Operator || len(k.List()) != 1 {
			t.Errorf("the second secret: %+v, %v", got, err)
		}
		if _, err := k.Replace(token, first, now); !errors.Is(err, ErrTaken) {
			t.Errorf("back to the first secret: %v", err)
		}
	}
	// The role can change and the secret stay.
	if _, err := k.Replace(Token{Name: "kubernetes", Role: access.User}, second, now); err != nil {
		t.Error(err)
	}
	if got, err := k.Check(second, now); err != nil || got.Role != access.User {
		t.Errorf("another role: %+v, %v", got, err)
	}
}

// A token with a time to live stands for whoever asks for the same time, until it has expired.
func TestATokenThatExpiresStands(t *testing.T) {
	k := open(t, filepath.Join(t.TempDir(), "tokens.json"))
	own, made := "0123456789abcdefghijklmnopqrstuv", now.Add(900*time.Millisecond)
	lasting := func(from time.Time, ttl time.Duration) Token {
		return Token{Name: "ci", Role: access.User, Expires: from.Add(ttl)}
	}
	if _, err := k.Create(lasting(made, time.Hour), own, made); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after, ttl time.Duration
		want       bool
	}{{0, time.Hour, true}, {50 * time.Minute, time.Hour, true}, {time.Hour, time.Hour, false}, {0, 2 * time.Hour, false}, {30 * time.Minute, 30 * time.Minute, false}} {
		then := made.Add(c.after)
		if got := k.Stands(lasting(then, c.ttl), own, then); got != c.want {
			t.Errorf("asked for %v after %v: it stands: %v, want %v", c.ttl, c.after, got, c.want)
		}
	}
	if k.Stands(Token{Name: "ci", Role: access.User}, own, made) {
		t.Error("a token that expires is taken for one that does not")
	}
}

// A token that is replaced by itself, for longer, ends nothing for whoever has shown it, and
// is as used as before.
func TestATokenIsProlonged(t *testing.T) {
	k := open(t, filepath.Join(t.TempDir(), "tokens.json"))
	own := "0123456789abcdefghijklmnopqrstuv"
	lasting := func(role access.Role, ttl time.Duration) Token {
		return Token{Name: "ci", Role: role, Expires: now.Add(ttl)}
	}
	create(t, k, lasting(access.User, time.Hour), own)
	for _, c := range []struct {
		name  string
		token Token
		ends  bool
	}{
		{"longer", lasting(access.User, 2*time.Hour), false}, {"for ever", Token{Name: "ci", Role: access.User}, false}, {"shorter", lasting(access.User, time.Hour), true},
		{"of another role", lasting(access.Viewer, 3*time.Hour), true},
	} {
		shown, err := k.Check(own, now)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Replace(c.token, own, now); err != nil || (shown.Standing.Err() != nil) != c.ends || k.List()[0].Used.IsZero() {
			t.Errorf("%s: %v; whoever showed it before: %v; used %v", c.name, err, shown.Standing.Err(), k.List()[0].Used)
		}
		if shown, err := k.Check(own, now); err != nil || shown.Standing.Err() != nil {
			t.Errorf("%s: shown afterwards: %v, %v", c.name, err, shown.Standing.Err())
		}
	}
}

// A token that is bound to a user stays bound to that user and uid.
func TestABoundTokenIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	k := open(t, path)
	own := "0123456789abcdefghijklmnopqrstuv"
	bound := Token{Name: "nightly", Role: access.User, As: "ada", UID: 1000, By: "root"}
	create(t, k, bound, own)
	k = open(t, path)
	want := access.Credential{Kind: access.Token, Name: "nightly", Role: access.User, As: "ada", UID: access.KnownUID(1000)}
	if shown, err := k.Check(own, now); err != nil || shown.Credential != want {
		t.Errorf("it gives %+v, %v", shown.Credential, err)
	}
	if got := k.List()[0]; got.As != "ada" || got.UID != 1000 {
		t.Errorf("listed %+v", got)
	}
	other, free := bound, bound
	other.UID, free.As, free.UID = 1001, "", 0
	if !k.Stands(bound, own, now) || k.Stands(other, own, now) || k.Stands(free, own, now) {
		t.Error("a token of another user, or of nobody, is taken for this one")
	}
	if _, err := k.Replace(free, own, now); err != nil {
		t.Fatal(err)
	}
	if shown, err := k.Check(own, now); err != nil || shown.UID.Known() || shown.As != "" {
		t.Errorf("replaced by one that is bound to nobody: %+v, %v", shown.Credential, err)
	}
}

// A token that is bound to nobody is written as before there were bound ones.
func TestTheFileOfUnboundTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	create(t, open(t, path), Token{Name: "ci", Role: access.User, Service: "builds", By: "root"}, "0123456789abcdefghijklmnopqrstuv")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(oldFile, string(text)); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(path, []byte(oldFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if shown, err := open(t, path).Check("0123456789abcdefghijklmnopqrstuv", now); err != nil || shown.Name != "ci" || shown.UID.Known() {
		t.Errorf("an old file gives %+v, %v", shown, err)
	}
}

// oldFile was written before tokens could be bound.
const oldFile = `# berth tokens.json: 229 bytes, crc32c 71a1b995
{"version":1,"tokens":[
{"name":"ci","role":"user","service":"builds","sha256":"73337f479fe170d73e53e247f3052e4243cc9c2a0ffa621853d9385c619efb77","created":"2026-11-15T12:00:30Z","by":"root","crc32c":"a5097a7d"}
],"revoked":[
]}
`

func TestBadTokens(t *testing.T) {
	k := New()
	k.SetDaemon("the-secret-of-the-daemon-0123456789")
	create(t, k, Token{Name: "first", Role: access.User}, "abcdefghijklmnopqrstuvwxyz012345")
	good := strings.Repeat("0123456789abcdef", 2)
	for name, c := range map[string]struct {
		token  Token
		secret string
		field  string
	}{
		"no name":             {Token{Role: access.User}, "", "name"},
		"a dot":               {Token{Name: "a.b", Role: access.User}, "", "name"},
		"a dash first":        {Token{Name: "-a", Role: access.User}, "", "name"},
		"a line":              {Token{Name: "a\nb", Role: access.User}, "", "name"},
		"a long name":         {Token{Name: strings.Repeat("a", 65), Role: access.User}, "", "name"},
		"the daemon's":        {Token{Name: "daemon", Role: access.User}, "", "name"},
		"no role":             {Token{Name: "a"}, "", "role"},
		"no such role":        {Token{Name: "a", Role: 99}, "", "role"},
		"no such service":     {Token{Name: "a", Role: access.User, Service: "a\x00b"}, "", "service"},
		"a service for all":   {Token{Name: "a", Role: access.Operator, Service: "s"}, "", "service"},
		"a user without uid":  {Token{Name: "a", Role: access.User, As: "ada"}, "", "as"},
		"a uid without user":  {Token{Name: "a", Role: access.User, UID: 7}, "", "as"},
		"a uid below 0":       {Token{Name: "a", Role: access.User, As: "ada", UID: -1}, "", "as"},
		"a bound viewer":      {Token{Name: "a", Role: access.Viewer, As: "ada", UID: 7}, "", "as"},
		"bound for a service": {Token{Name: "a", Role: access.User, Service: "s", As: "ada", UID: 7}, "", "as"},
		"over already":        {Token{Name: "a", Role: access.User, Expires: now.Add(-time.Second)}, "", "ttl_seconds"},
		"31 characters":       {Token{Name: "a", Role: access.User}, good[1:], "token"},
		"the same again":      {Token{Name: "a", Role: access.User}, strings.Repeat("ab", 40), "token"},
		"a space":             {Token{Name: "a", Role: access.User}, good + " ", "token"},
		"not printable":       {Token{Name: "a", Role: access.User}, good + "\x7f", "token"},
		"not ASCII":           {Token{Name: "a", Role: access.User}, good + "ü", "token"},
		"a very long secret":  {Token{Name: "a", Role: access.User}, strings.Repeat(good, 100), "token"},
	} {
		wrong := (*InvalidError)(nil)
		if _, err := k.Create(c.token, c.secret, now); !errors.As(err, &wrong) || wrong.Field != c.field {
			t.Errorf("%s: %v, want something wrong with %s", name, err, c.field)
		}
	}
	for name, secret := range map[string]string{"a": "abcdefghijklmnopqrstuvwxyz012345", "b": "the-secret-of-the-daemon-0123456789", "first": ""} {
		if _, err := k.Create(Token{Name: name, Role: access.User}, secret, now); !errors.Is(err, ErrTaken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(k.List()) != 2 {
		t.Errorf("there are %v", k.List())
	}
}

// The token of the configuration is role admin, and can change while the daemon
// runs.
func TestTheDaemonsToken(t *testing.T) {
	k := New()
	set := func(secret string, changed, short bool) {
		t.Helper()
		if c, s := k.SetDaemon(secret); c != changed || s != short || k.HasDaemon() != (secret != "") {
			t.Errorf("%q: changed %v, short %v", secret, c, s)
		}
	}
	set("", false, false)
	set("hush", true, true)
	shown, err := k.Check("hush", now)
	if want := (access.Credential{Kind: access.Token, Name: "daemon", Role: access.Admin}); err != nil || shown.Credential != want || !shown.Weak {
		t.Errorf("it gives %+v, %v", shown, err)
	}
	if set("hush", false, true); shown.Standing.Err() != nil {
		t.Error("the same again ends what there is")
	}
	set("a-secret-that-is-long-enough-0123", true, false)
	if _, err := k.Check("hush", now); !errors.Is(err, ErrUnknown) || shown.Standing.Err() == nil {
		t.Errorf("the secret from before: %v", err)
	}
	if _, err := k.Revoke("daemon", now); !errors.Is(err, ErrMissing) {
		t.Errorf("it was revoked: %v", err)
	}
	set("", true, false)
}

// A disk that takes nothing: no token is made, and a revoked one is refused all
// the same.
func TestTheDiskFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	k := open(t, filepath.Join(dir, "tokens.json"))
	secret := create(t, k, Token{Name: "a", Role: access.User}, "")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Create(Token{Name: "b", Role: access.User}, "", now); err == nil || len(k.List()) != 1 {
		t.Errorf("made, although it is not kept: %v, %v", err, k.List())
	}
	if _, err := k.Revoke("a", now); err == nil || !strings.Contains(err.Error(), "after a restart") {
		t.Errorf("revoked: %v", err)
	}
	if _, err := k.Check(secret, now); !errors.Is(err, ErrRevoked) {
		t.Errorf("it is accepted: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := k.Run(stopped); err != nil {
		t.Error(err)
	}
	if _, err := open(t, filepath.Join(dir, "tokens.json")).Check(secret, now); !errors.Is(err, ErrRevoked) {
		t.Errorf("it is accepted after a restart, though the disk takes something again: %v", err)
	}
}

// A file that cannot be understood lets nobody in, and is not lost.
func TestAFileThatIsBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	create(t, open(t, path), Token{Name: "a", Role: access.User}, "")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("\n"))
	if err := os.WriteFile(path, bytes.Replace(text, []byte(`"version":1`), []byte(`"version":2`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	k, damage := Open(path)
	if damage == nil || !strings.Contains(damage.String(), "version 2") || len(k.List()) > 0 {
		t.Fatalf("%v, %v", damage, k.List())
	}
	if _, err := os.Stat(damage.Aside); err != nil {
		t.Error(err)
	}
}

// One bit that flips costs at most the token of its line, and the next one if it is
// the end of the line. It gives nobody more than was written down. The next start
// knows the same tokens.
func TestOneBitFlips(t *testing.T) {
	model := filepath.Join(t.TempDir(), "tokens.json")
	k := open(t, model)
	secrets := map[string]string{}
	for name, role := range map[string]access.Role{"a": access.Viewer, "b": access.User, "c": access.Operator} {
		secrets[name] = create(t, k, Token{Name: name, Role: role}, "")
	}
	old := create(t, k, Token{Name: "old", Role: access.Admin}, "")
	if _, err := k.Revoke("old", now); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(whole); i += 5 {
		path := filepath.Join(t.TempDir(), "tokens.json")
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1 << (i % 8)
		if err := os.WriteFile(path, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		k, damage := Open(path)
		if damage == nil {
			t.Fatalf("byte %d: nobody is told", i)
		}
		for range 2 {
			accepted := 0
			for name, secret := range secrets {
				shown, err := k.Check(secret, now)
				if err != nil {
					continue
				}
				accepted++
				if was := map[string]access.Role{"a": access.Viewer, "b": access.User, "c": access.Operator}[name]; shown.Role != was || shown.Name != name {
					t.Errorf("byte %d: %s is now %s with role %s", i, name, shown.Name, shown.Role)
				}
				if !strings.Contains(damage.String(), name) {
					t.Errorf("byte %d: %s is accepted, and it says %v", i, name, damage)
				}
			}
			if _, err := k.Check(old, now); err == nil || accepted < 1 {
				t.Errorf("byte %d: %d are accepted, and the revoked one: %v", i, accepted, err)
			}
			k = open(t, path)
		}
	}
}

// Expired tokens are listed for a while; then they are forgotten.
func TestExpiredTokensGo(t *testing.T) {
	k := New()
	secret := create(t, k, Token{Name: "old", Role: access.User, Expires: now.Add(time.Hour)}, "")
	later := now.Add(expiredKept + 2*time.Hour)
	if _, err := k.Create(Token{Name: "old", Role: access.User}, "", later); err != nil {
		t.Error(err)
	}
	if _, err := k.Check(secret, later); !errors.Is(err, ErrRevoked) {
		t.Errorf("the old one: %v", err)
	}
}

// A clock that is ahead takes no token away for good, as long as there is room.
func TestAClockThatWasAhead(t *testing.T) {
	k := New()
	secret := create(t, k, Token{Name: "a", Role: access.User, Expires: now.Add(time.Hour)}, "")
	ahead := now.Add(365 * 24 * time.Hour)
	if _, err := k.Create(Token{Name: "b", Role: access.User}, "", ahead); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Revoke("b", ahead); err != nil {
		t.Fatal(err)
	}
	if l := k.List(); len(l) != 1 || l[0].Listed(ahead) || !l[0].Listed(now) {
		t.Errorf("there are %+v", l)
	}
	if _, err := k.Check(secret, ahead); !errors.Is(err, ErrExpired) {
		t.Errorf("meanwhile: %v", err)
	}
	if _, err := k.Check(secret, now); err != nil {
		t.Errorf("once the clock is right: %v", err)
	}
	for i := range most {
		if _, err := k.Create(Token{Name: fmt.Sprint("t", i), Role: access.User}, "", ahead); err != nil {
			t.Fatalf("where one that has expired makes room: %v", err)
		}
	}
	if _, err := k.Check(secret, now); !errors.Is(err, ErrRevoked) {
		t.Errorf("once its room was needed: %v", err)
	}
}

func TestThereIsAnEnd(t *testing.T) {
	k := New()
	for i := range most {
		if _, err := k.Create(Token{Name: "t" + strings.Repeat("x", i%50) + string(rune('a'+i/50)), Role: access.User}, "", now); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.Create(Token{Name: "one-more", Role: access.User}, "", now); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
}

// When tokens were used is written down rarely, and when the daemon stops.
func TestUseIsWrittenDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	synctest.Test(t, func(t *testing.T) {
		k := open(t, path)
		secret := create(t, k, Token{Name: "a", Role: access.User}, "")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- k.Run(ctx) }()
		used := func() time.Time { return open(t, path).List()[0].Used }
		check := func() time.Time {
			if _, err := k.Check(secret, time.Now()); err != nil {
				t.Fatal(err)
			}
			return time.Now().Truncate(time.Minute).UTC()
		}
		first := check()
		if !used().IsZero() {
			t.Error("written at once")
		}
		time.Sleep(usedAfter + time.Second)
		synctest.Wait()
		if got := used(); !got.Equal(first) {
			t.Errorf("written: %v, want %v", got, first)
		}
		last := check()
		cancel()
		if err := <-done; err != nil || !used().Equal(last) {
			t.Errorf("at the end: %v, %v, want %v", err, used(), last)
		}
	})
}

// FuzzFile reads any text as the file of the tokens: it is refused, or what was
// read is written back the same.
func FuzzFile(f *testing.F) {
	hash := strings.Repeat("0a", 32)
	f.Add([]byte(`{"version":1,"tokens":[{"name":"a","role":"user","service":"s","sha256":"` + hash + `","created":"2026-01-01T00:00:00Z","expires":"2027-01-01T00:00:00Z"}],"revoked":[{"name":"b","sha256":"` + strings.Repeat("0b", 32) + `","at":"2026-01-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"version":1,"tokens":[{"name":"a","role":"root","sha256":"` + hash + `"}]}`))
	f.Add([]byte(`{"version":1,"tokens":[{"name":"daemon","role":"admin","sha256":"` + hash + `"}]}`))
	f.Add([]byte(`{"version":1,"tokens":[{"name":"a","role":"operator","service":"s","sha256":"` + hash + `"}]}`))
	f.Add([]byte(`{"version":1,"tokens":null}{}`))
	f.Add([]byte("\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var b, again book
		if b.UnmarshalText(text) != nil {
			return
		}
		for name, e := range b.byName {
			if name == "daemon" || e.Role < access.Scraper || e.Role > access.Admin || e.Service != "" && e.Role > access.User {
				t.Errorf("read %+v", e.Token)
			}
		}
		first, err := b.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalText(first); err != nil {
			t.Fatalf("%v: %s", err, first)
		}
		second, err := again.MarshalText()
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%v\n%s\n%s", err, first, second)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	k := New()
	secret, err := k.Create(Token{Name: "a", Role: access.User}, "", now)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := k.Check(secret, now); err != nil {
			b.Fatal(err)
		}
	}
}
