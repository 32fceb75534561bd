package sessions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/secret"
)

var (
	ann = Owner{UID: access.KnownUID(1000), Groups: []int{1000, 27}, Place: access.Here}
	bob = Owner{UID: access.KnownUID(1001), Groups: []int{}, Place: access.Elsewhere}
	ops = Owner{Token: "ops", Proof: "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"}
)

func yes(Session) error { return nil }

// begin begins a session that must begin.
func begin(t *testing.T, k *Sessions, o Owner, now time.Time) (string, Session) {
	t.Helper()
	secret, s, err := k.Begin(o, now, yes)
	if err != nil {
		t.Fatal(err)
	}
	return secret, s
}

// A code works once, within a minute, and says who made it.
func TestCodes(t *testing.T) {
	k, now := New(), time.Now()
	issue := func(o Owner, at time.Time) string {
		code, ends, err := k.Issue(o, at)
		if err != nil || !ends.Equal(at.Add(CodeLife)) {
			t.Fatal(err, ends)
		}
		return code
	}
	code := issue(ann, now)
	for _, wrong := range []string{"", code[1:], code + "x", strings.ToUpper(code), strings.Repeat("A", 43)} {
		if _, err := k.Redeem(wrong, now); !errors.Is(err, ErrNoCode) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if o, err := k.Redeem(code, now.Add(CodeLife-1)); err != nil || !o.same(&ann) || !slices.Equal(o.Groups, ann.Groups) || o.Place != access.Here {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := k.Redeem(code, now); !errors.Is(err, ErrNoCode) {
		t.Error("it works twice")
	}
	late := issue(ann, now)
	if _, err := k.Redeem(late, now.Add(CodeLife)); !errors.Is(err, ErrNoCode) {
		t.Error("it works after its minute")
	}
	// One who asks without end pushes out the own codes alone.
	theirs, first := issue(bob, now), issue(ann, now)
	for range 10 * mostCodesOfOne {
		issue(ann, now)
	}
	if _, err := k.Redeem(theirs, now); err != nil {
		t.Error("the code of another user was pushed out")
	}
	if _, err := k.Redeem(first, now); err == nil || len(k.codes) > mostCodesOfOne {
		t.Errorf("%d codes", len(k.codes))
	}
}

func TestEveryoneTogetherHasALimitOfCodes(t *testing.T) {
	k, now := New(), time.Now()
	for uid := range mostCodes {
		if _, _, err := k.Issue(Owner{UID: access.KnownUID(uid), Place: access.Here}, now); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := k.Issue(Owner{UID: access.KnownUID(mostCodes)}, now); !errors.Is(err, ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if _, _, err := k.Issue(Owner{UID: access.KnownUID(mostCodes)}, now.Add(CodeLife)); err != nil {
		t.Errorf("after a minute: %v", err)
	}
}

// Where many share all codes that there are for them, one who asks again gets another one
// for the own that is pushed out.
func TestAnotherCodeWhereThereAreNoMore(t *testing.T) {
	k, now := New(), time.Now()
	for uid := range mostCodes/2 - mostCodesOfOne {
		if _, _, err := k.Issue(Owner{UID: access.KnownUID(uid)}, now); err != nil {
			t.Fatal(err)
		}
	}
	own := Owner{UID: access.KnownUID(mostCodes)}
	for range 2 * mostCodesOfOne {
		if _, _, err := k.Issue(own, now); err != nil {
			t.Fatal(err)
		}
	}
	if len(k.codes) != mostCodes/2 {
		t.Errorf("there are %d codes", len(k.codes))
	}
}

// A session ends twelve hours after its last use, and seven days after it began.
func TestSessionsEnd(t *testing.T) {
	k, now := New(), time.Date(2026, 11, 16, 8, 0, 0, 0, time.UTC)
	secret, s := begin(t, k, ann, now)
	shown, err := k.Check(secret, now)
	if err != nil || shown.ID != s.ID || !shown.Until().Equal(now.Add(Idle)) {
		t.Fatalf("%+v, %v", shown, err)
	}
	at := now
	for at.Before(now.Add(Longest - Idle)) {
		at = at.Add(Idle - time.Minute)
		if _, err := k.Check(secret, at); err != nil {
			t.Fatalf("after %v: %v", at.Sub(now), err)
		}
	}
	if _, err := k.Check(secret, now.Add(Longest-time.Second)); err != nil {
		t.Errorf("before its end: %v", err)
	}
	if _, err := k.Check(secret, now.Add(Longest)); !errors.Is(err, ErrEnded) || shown.Standing.Err() == nil {
		t.Errorf("after seven days: %v", err)
	}
	if _, err := k.Check(secret, now); !errors.Is(err, ErrUnknown) {
		t.Errorf("it came back: %v", err)
	}
	idle, _ := begin(t, k, ann, now)
	if _, err := k.Check(idle, now.Add(Idle)); !errors.Is(err, ErrEnded) {
		t.Errorf("after twelve hours: %v", err)
	}
	gone, g := begin(t, k, ann, now)
	shown, _ = k.Check(gone, now)
	if _, err := k.End(g.ID); err != nil || shown.Standing.Err() == nil {
		t.Errorf("ended: %v", err)
	}
	if _, err := k.Check(gone, now); !errors.Is(err, ErrUnknown) {
		t.Errorf("it was ended: %v", err)
	}
	if _, err := k.End(g.ID); !errors.Is(err, ErrMissing) {
		t.Errorf("ended twice: %v", err)
	}
	if _, _, err := k.Begin(ann, now, func(Session) error { return errors.New("no") }); err == nil || len(k.List(now)) != 0 {
		t.Errorf("a session that was refused stands: %v", err)
	}
}

// One owner has few sessions and pushes out the own ones alone; all together have a
// limit.
func TestSessionsAreBounded(t *testing.T) {
	k, now := New(), time.Date(2026, 11, 16, 8, 0, 0, 0, time.UTC)
	theirs, _ := begin(t, k, bob, now)
	kept, _ := begin(t, k, ann, now)
	for i := range 3 * MostOfOne {
		at := now.Add(time.Duration(i) * time.Minute)
		if _, err := k.Check(kept, at); err != nil {
			t.Fatalf("the session that is used was pushed out: %v", err)
		}
		begin(t, k, ann, at)
	}
	if n := len(k.List(now)); n != MostOfOne+1 {
		t.Errorf("%d sessions", n)
	}
	if _, err := k.Check(theirs, now); err != nil {
		t.Errorf("that of another user: %v", err)
	}
	for i := range Most - len(k.List(now)) {
		e := &entry{Session{ID: fmt.Sprint(i), Owner: Owner{UID: access.KnownUID(2000 + i)}, Begun: now, Used: now}, secret.Keep(secret.Of(fmt.Sprint(i)))}
		k.byHash[e.Hash] = e
	}
	if _, _, err := k.Begin(ops, now, yes); err != nil || len(k.List(now)) != Most || k.count(ann.same) != MostOfOne-1 {
		t.Errorf("one more: %v, and ann has %d", err, k.count(ann.same))
	}
	if _, err := k.Check(kept, now); err != nil {
		t.Errorf("the session that is used was pushed out: %v", err)
	}
	if _, _, err := k.Begin(bob, now, yes); err != nil || len(k.List(now)) != Most {
		t.Errorf("who has one may exchange it: %v", err)
	}
}

// Somebody with a range of user ids for containers takes no place of those who have one:
// neither with links nor with a token.
func TestManyOwnersOfOnePerson(t *testing.T) {
	k, now := New(), time.Date(2026, 11, 16, 8, 0, 0, 0, time.UTC)
	first, _ := begin(t, k, ann, now)
	second, _ := begin(t, k, ann, now)
	for i := range 2 * Most {
		o := Owner{UID: access.KnownUID(100000 + i), Place: access.Elsewhere}
		if i%2 == 0 {
			o.Token, o.Proof, o.Place = ops.Token, ops.Proof, access.Unknown
		}
		if _, _, err := k.Issue(o, now); (err != nil) != (i >= mostCodes/2) {
			t.Fatalf("link %d: %v", i, err)
		}
		begin(t, k, o, now.Add(time.Minute))
	}
	if _, _, err := k.Issue(ann, now); err != nil {
		t.Error(err)
	}
	for _, secret := range []string{first, second} {
		if _, err := k.Check(secret, now); err != nil {
			t.Error(err)
		}
	}
}

// What a daemon knew before it was stopped, it knows afterwards, and no more: neither
// what was ended nor what is over. The file holds no secret, and is for its owner.
func TestSessionsSurviveARestart(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "sessions.json"), time.Date(2026, 11, 16, 8, 0, 0, 0, time.UTC)
	k, damage := Open(path, now)
	if damage != nil {
		t.Fatal(damage)
	}
	secrets := map[string]Owner{}
	for _, o := range []Owner{ann, bob, ops, {UID: access.KnownUID(0), Token: ops.Token, Proof: ops.Proof}} {
		secret, _ := begin(t, k, o, now)
		secrets[secret] = o
	}
	ended, e := begin(t, k, ann, now)
	over, _ := begin(t, k, ann, now.Add(-Idle+time.Minute))
	if err := k.save(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.End(e.ID); err != nil { // writes at once
		t.Fatal(err)
	}
	later := now.Add(time.Hour)
	k, damage = Open(path, later)
	if damage != nil {
		t.Fatal(damage)
	}
	for secret, o := range secrets {
		s, err := k.Check(secret, later)
		if err != nil || !s.same(&o) || s.Token != o.Token || !slices.Equal(s.Groups, o.Groups) || (s.Groups == nil) != (o.Groups == nil) || (s.Place == access.Here) != (o.Place == access.Here) {
			t.Errorf("%+v, %v; want %+v", s, err, o)
		}
	}
	for _, secret := range []string{ended, over} {
		if _, err := k.Check(secret, later); err == nil {
			t.Error("what had ended is back")
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for secret := range secrets {
		if strings.Contains(string(text), secret) {
			t.Error("the file has a secret")
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A file that cannot be understood lets nobody in, and is put aside.
func TestDamagedFiles(t *testing.T) {
	const good = `{"id":"a","sha256":"%064d","uid":1,"groups":null,"begun":"2026-11-16T08:00:00Z","used":"2026-11-16T08:00:00Z"}`
	one := fmt.Sprintf(good, 1)
	now := time.Date(2026, 11, 16, 9, 0, 0, 0, time.UTC)
	for name, text := range map[string]string{
		"nothing": "", "torn": `{"version":1,"sessions":[`, "another version": `{"version":2,"sessions":[]}`, "text after it": `{"version":1,"sessions":[]}{}`,
		"a restriction of tomorrow": `{"version":1,"sessions":[` + strings.Replace(one, `"uid"`, `"only_on":"monday","uid"`, 1) + `]}`,
		"a short hash":              `{"version":1,"sessions":[` + strings.Replace(one, "000", "", 1) + `]}`,
		"nobody's":                  `{"version":1,"sessions":[` + strings.Replace(one, `"uid":1,`, "", 1) + `]}`,
		"a token without its hash":  `{"version":1,"sessions":[` + strings.Replace(one, `"uid":1,`, `"token":"admin",`, 1) + `]}`,
		"a user below 0":            `{"version":1,"sessions":[` + strings.Replace(one, `"uid":1`, `"uid":-1`, 1) + `]}`,
		"without a beginning":       `{"version":1,"sessions":[` + strings.Replace(one, `"begun":"2026-11-16T08:00:00Z",`, "", 1) + `]}`,
		"twice":                     `{"version":1,"sessions":[` + one + `,` + one + `]}`,
	} {
		path := filepath.Join(t.TempDir(), "sessions.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k, damage := Open(path, now)
		if damage == nil || len(k.List(now)) != 0 {
			t.Fatalf("%s: %v", name, damage)
		}
		if _, err := os.Stat(damage.Aside); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "sessions.json")
	if err := os.WriteFile(path, []byte(`{"version":1,"sessions":[`+one+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if k, damage := Open(path, now); damage != nil || len(k.List(now)) != 1 {
		t.Errorf("a good one: %v", damage)
	}
}

// A session that begins is in the file a second later, also while others begin, and
// when the daemon stops.
func TestRunWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions.json")
	synctest.Test(t, func(t *testing.T) {
		k, damage := Open(path, time.Now())
		if damage != nil {
			t.Fatal(damage)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = k.Run(ctx) }()
		known := func(secret string) bool {
			again, damage := Open(path, time.Now())
			if damage != nil {
				t.Fatal(damage)
			}
			_, err := again.Check(secret, time.Now())
			return err == nil
		}
		secret, _ := begin(t, k, ann, time.Now())
		time.Sleep(changedAfter + time.Second)
		if !known(secret) {
			t.Error("a session is not in the file")
		}
		time.Sleep(6 * time.Hour)
		if _, err := k.Check(secret, time.Now()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(usedAfter + time.Second)
		if again, _ := Open(path, time.Now()); again.List(time.Now())[0].Used.Before(time.Now().Add(-time.Hour)) {
			t.Error("the file does not say that it is used")
		}
		last, _ := begin(t, k, bob, time.Now())
		stop()
		<-done
		if !known(last) {
			t.Error("the last one is not in the file")
		}
	})
}

// Whatever happens, a secret gives what its owner began, until it is ended or over.
func TestSecretsAreWorthWhatTheyShould(t *testing.T) {
	type lived struct {
		owner       Owner
		id          string
		begun, used time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		k, now := New(), time.Date(2026, 11, 16, 8, 0, 0, 0, time.UTC)
		model := map[string]*lived{}
		pick := func() string {
			return rapid.SampledFrom(append(slices.Sorted(func(yield func(string) bool) {
				for s := range model {
					if !yield(s) {
						return
					}
				}
			}), "unknown")).Draw(t, "secret")
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				o := rapid.SampledFrom([]Owner{ann, bob, ops}).Draw(t, "owner")
				if len(model) >= MostOfOne {
					return // another test pushes sessions out
				}
				secret, s, err := k.Begin(o, now, yes)
				if err != nil {
					t.Fatal(err)
				}
				model[secret] = &lived{o, s.ID, now, now}
			},
			"check": func(t *rapid.T) {
				secret := pick()
				want := model[secret]
				s, err := k.Check(secret, now)
				stands := want != nil && now.Before(want.used.Add(Idle)) && now.Before(want.begun.Add(Longest))
				if (err == nil) != stands || err == nil && (s.ID != want.id || !s.same(&want.owner)) {
					t.Fatalf("%v, %+v; want %v", err, s, stands)
				}
				if stands {
					want.used = now
				} else {
					delete(model, secret)
				}
			},
			"end": func(t *rapid.T) {
				if secret := pick(); model[secret] != nil {
					_, _ = k.End(model[secret].id) // it may be over already
					delete(model, secret)
				}
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 20*60).Draw(t, "minutes")) * time.Minute)
			},
		})
	})
}
