package bound

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
)

var now = time.Unix(1_800_000_000, 0)

// issuer signs tokens as a cluster does.
type issuer struct {
	rsa *rsa.PrivateKey
	ec  map[string]*ecdsa.PrivateKey
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	i := &issuer{ec: map[string]*ecdsa.PrivateKey{}}
	var err error
	if i.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	for _, c := range curves {
		if i.ec[c.algorithm], err = ecdsa.GenerateKey(c.curve, rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jwks returns the public keys, as the API server prints them.
func (i *issuer) jwks() []byte {
	keys := []map[string]string{{"use": "sig", "kty": "RSA", "kid": "RS256", "alg": "RS256", "n": encode(i.rsa.N.Bytes()), "e": encode(big.NewInt(int64(i.rsa.E)).Bytes())}}
	for _, c := range curves {
		k, size := i.ec[c.algorithm], c.size()
		keys = append(keys, map[string]string{"use": "sig", "kty": "EC", "kid": c.algorithm, "crv": c.curve.Params().Name,
			"x": encode(k.X.FillBytes(make([]byte, size))), "y": encode(k.Y.FillBytes(make([]byte, size)))})
	}
	text, _ := json.Marshal(map[string]any{"keys": keys})
	return text
}

// token returns a token with these claims, signed by an algorithm.
func (i *issuer) token(algorithm, id string, claims map[string]any) string {
	header, _ := json.Marshal(map[string]string{"alg": algorithm, "kid": id})
	body, _ := json.Marshal(claims)
	text := encode(header) + "." + encode(body)
	if algorithm == "RS256" {
		signature, _ := rsa.SignPKCS1v15(rand.Reader, i.rsa, crypto.SHA256, sum(crypto.SHA256, []byte(text)))
		return text + "." + encode(signature)
	}
	for _, c := range curves {
		if c.algorithm == algorithm {
			r, s, _ := ecdsa.Sign(rand.Reader, i.ec[algorithm], sum(c.hash, []byte(text)))
			return text + "." + encode(append(r.FillBytes(make([]byte, c.size())), s.FillBytes(make([]byte, c.size()))...))
		}
	}
	return text + "."
}

// good returns the claims of the driver's token, with changes.
func good(change ...func(map[string]any)) map[string]any {
	c := map[string]any{
		"iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:berth-system:berth-dra", "aud": []string{"berth"},
		"exp": now.Add(time.Hour).Unix(), "nbf": now.Unix(), "iat": now.Unix(),
		"kubernetes.io": map[string]any{"namespace": "berth-system", "node": map[string]any{"name": "node-1"}, "pod": map[string]any{"uid": "p"}},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func set(name string, value any) func(map[string]any) {
	return func(c map[string]any) { c[name] = value }
}

var want = Want{Account: "berth-system:berth-dra", Node: "node-1"}

func TestTokens(t *testing.T) {
	i := newIssuer(t)
	keys, err := ParseKeys(i.jwks())
	if err != nil {
		t.Fatal(err)
	}
	other := newIssuer(t)
	node := func(name string) func(map[string]any) {
		return set("kubernetes.io", map[string]any{"node": map[string]any{"name": name}, "pod": map[string]any{"uid": "p"}})
	}
	fine := i.token("RS256", "RS256", good())
	mixed := func(a, b string) string { // the claims of one token under the signature of another
		x, y := strings.Split(a, "."), strings.Split(b, ".")
		return x[0] + "." + x[1] + "." + y[2]
	}
	hs := func() string { // the public key as the secret of an HMAC
		header, _ := json.Marshal(map[string]string{"alg": "HS256", "kid": "RS256"})
		body, _ := json.Marshal(good())
		text := encode(header) + "." + encode(body)
		m := hmac.New(sha256.New, i.rsa.N.Bytes())
		m.Write([]byte(text))
		return text + "." + encode(m.Sum(nil))
	}
	for _, c := range []struct {
		name, token string
		want        error
	}{
		{"RSA", fine, nil},
		{"P-256", i.token("ES256", "ES256", good()), nil},
		{"P-384", i.token("ES384", "ES384", good()), nil},
		{"P-521", i.token("ES512", "ES512", good()), nil},
		{"one audience as a text", i.token("ES256", "ES256", good(set("aud", "berth"))), nil},
		{"another node", i.token("RS256", "RS256", good(node("node-2"))), ErrOther},
		{"no node", i.token("RS256", "RS256", good(node(""))), ErrOther},
		{"bound to no pod", i.token("RS256", "RS256", good(set("kubernetes.io", map[string]any{"node": map[string]any{"name": "node-1"}}))), ErrOther},
		{"another account", i.token("RS256", "RS256", good(set("sub", "system:serviceaccount:default:berth-dra"))), ErrOther},
		{"for the API server", i.token("RS256", "RS256", good(set("aud", []string{"https://kubernetes.default.svc"}))), ErrOther},
		{"for nobody", i.token("RS256", "RS256", good(set("aud", nil))), ErrOther},
		{"expired", i.token("RS256", "RS256", good(set("exp", now.Unix()))), ErrExpired},
		{"without an end", i.token("RS256", "RS256", good(func(c map[string]any) { delete(c, "exp") })), ErrForged},
		{"from tomorrow on", i.token("RS256", "RS256", good(set("nbf", now.Add(24*time.Hour).Unix()))), ErrForged},
		{"of another cluster", other.token("RS256", "RS256", good()), ErrForged},
		{"of an unknown key", i.token("RS256", "old", good()), ErrForged},
		{"of another kind than its key", i.token("ES256", "RS256", good()), ErrForged},
		{"with changed claims", mixed(i.token("RS256", "RS256", good(node("node-9"))), fine), ErrForged},
		{"unsigned", i.token("none", "RS256", good()), ErrForged},
		{"signed with the public key", hs(), ErrForged},
		{"cut off", fine[:len(fine)-8], ErrForged},
		{"two parts", "eyJ.eyJ", ErrForged},
		{"nothing", "", ErrForged},
	} {
		ends, err := keys.Check(c.token, want, now)
		if !errors.Is(err, c.want) || (err == nil) != ends.Equal(now.Add(time.Hour)) {
			t.Errorf("%s: %v, until %v; want %v", c.name, err, ends, c.want)
		}
	}
	if _, err := keys.Check(i.token("RS256", "RS256", good(node(""))), Want{Account: want.Account}, now); !errors.Is(err, ErrOther) {
		t.Errorf("a daemon that does not know its node: %v", err)
	}
	if !Looks(fine) || Looks("berth_0123456789abcdef0123456789abcdef") {
		t.Error("it does not know a token when it sees one")
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skip(err) // this Go makes none
	}
	for text, want := range map[string]string{
		"":            "not a set",
		`{"keys":[]}`: "0 keys",
		`{"keys":[{"kty":"oct","kid":"a","k":"c2VjcmV0"}]}`:                                         "RSA and EC",
		`{"keys":[{"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"}]}`:                                  "2048",
		fmt.Sprintf(`{"keys":[{"kty":"RSA","kid":"a","n":%q,"e":"AQAB"}]}`, encode(weak.N.Bytes())): "2048",
		`{"keys":[{"kty":"EC","kid":"a","crv":"P-256","x":"AQAB","y":"AQAB"}]}`:                     "not on its curve",
		fmt.Sprintf(`{"keys":[{"kty":"EC","kid":"a","crv":"secp256k1","x":"AQ","y":"AQ"}]}`):        "P-256",
		`{"keys":[{"kty":"EC","kid":"a","use":"enc","crv":"P-256","x":"AQAB","y":"AQAB"}]}`:         "for signatures",
	} {
		if _, err := ParseKeys([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

// Nothing that is not signed is accepted, and nothing crashes.
func FuzzCheck(f *testing.F) {
	i := newIssuer(f)
	keys, err := ParseKeys(i.jwks())
	if err != nil {
		f.Fatal(err)
	}
	fine := i.token("ES256", "ES256", good())
	f.Add(fine, string(i.jwks()))
	f.Add("a.b.c", "{}")
	f.Fuzz(func(t *testing.T, token, text string) {
		if _, err := keys.Check(token, want, now); err == nil && token != fine {
			t.Errorf("%q is accepted", token)
		}
		if k, err := ParseKeys([]byte(text)); err == nil {
			_, _ = k.Check(token, want, now)
		}
	})
}
