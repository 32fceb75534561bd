// Package bound checks the tokens that a Kubernetes cluster issues for a pod on one node.
//
// The cluster signs them. Keys has its public keys, from a file that an administrator
// wrote, so that nobody asks the API server.
//
// Pure: no clock, no I/O.
package bound

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	_ "crypto/sha256" // the hashes of the algorithms
	_ "crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

const (
	// Audience is whom a token must be for. A token for somebody else, such as the API
	// server, counts for nothing here: whoever got it could pass it on.
	Audience = "berth"

	longest  = 16 << 10 // bytes of a token
	most     = 64       // keys
	leastRSA = 2048     // bits of a key
	// skew is how far the clocks of the cluster and of this machine may differ.
	skew = time.Minute
)

// Looks reports whether a secret has the form of such a token: three parts of base64.
func Looks(secret string) bool {
	return len(secret) <= longest && strings.HasPrefix(secret, "eyJ") && strings.Count(secret, ".") == 2
}

// Keys are the public keys of a cluster, by their ids.
type Keys map[string]key

type key struct {
	public    crypto.PublicKey
	algorithm string
}

// jwk is a key in the form of RFC 7517.
type jwk struct {
	Kind      string `json:"kty"`
	ID        string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	N, E      string // RSA
	Curve     string `json:"crv"`
	X, Y      string // ECDSA
}

// ParseKeys reads the keys of a cluster, as kubectl get --raw /openid/v1/jwks prints them.
func ParseKeys(text []byte) (Keys, error) {
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("they are not a set of keys in JSON: %w", err)
	}
	if len(set.Keys) == 0 || len(set.Keys) > most {
		return nil, fmt.Errorf("there are %d keys; there must be 1 to %d", len(set.Keys), most)
	}
	keys := Keys{}
	for _, j := range set.Keys {
		if j.Use != "" && j.Use != "sig" {
			continue
		}
		k, err := j.key()
		if err != nil {
			return nil, fmt.Errorf("the key %q: %w", j.ID, err)
		}
		if _, twice := keys[j.ID]; twice {
			return nil, fmt.Errorf("the key %q is there twice", j.ID)
		}
		keys[j.ID] = k
	}
	if len(keys) == 0 {
		return nil, errors.New("none of them is for signatures")
	}
	return keys, nil
}

// key returns the key, which verifies one algorithm.
func (j *jwk) key() (key, error) {
	switch j.Kind {
	case "RSA":
		n, e := number(j.N), number(j.E)
		if n == nil || e == nil || n.BitLen() < leastRSA || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 || e.Bit(0) == 0 {
			return key{}, fmt.Errorf("it is no RSA key of at least %d bits", leastRSA)
		}
		if j.Algorithm != "" && j.Algorithm != "RS256" {
			return key{}, fmt.Errorf("its algorithm is %q; berth knows RS256, ES256, ES384 and ES512", j.Algorithm)
		}
		return key{&rsa.PublicKey{N: n, E: int(e.Int64())}, "RS256"}, nil
	case "EC":
		for _, c := range curves {
			if j.Curve != c.curve.Params().Name {
				continue
			}
			public, err := c.point(number(j.X), number(j.Y))
			if err != nil {
				return key{}, errors.New("its point is not on its curve")
			}
			if j.Algorithm != "" && j.Algorithm != c.algorithm {
				return key{}, fmt.Errorf("its algorithm is %q; that of its curve is %s", j.Algorithm, c.algorithm)
			}
			return key{public, c.algorithm}, nil
		}
		return key{}, fmt.Errorf("its curve is %q; berth knows P-256, P-384 and P-521", j.Curve)
	}
	return key{}, fmt.Errorf("its kind is %q; berth knows RSA and EC", j.Kind)
}

// curve is an algorithm of ECDSA.
type curve struct {
	algorithm string
	curve     elliptic.Curve
	hash      crypto.Hash
}

var curves = []curve{{"ES256", elliptic.P256(), crypto.SHA256}, {"ES384", elliptic.P384(), crypto.SHA384}, {"ES512", elliptic.P521(), crypto.SHA512}}

// size returns how many bytes a number of the curve has.
func (c curve) size() int { return (c.curve.Params().BitSize + 7) / 8 }

// point returns the key with a point of the curve.
func (c curve) point(x, y *big.Int) (*ecdsa.PublicKey, error) {
	size := c.size()
	if x == nil || y == nil || len(x.Bytes()) > size || len(y.Bytes()) > size {
		return nil, errors.New("its numbers cannot be those of the curve")
	}
	return ecdsa.ParseUncompressedPublicKey(c.curve, append([]byte{4}, append(x.FillBytes(make([]byte, size)), y.FillBytes(make([]byte, size))...)...))
}

// number returns a number in base64, or nil.
func number(text string) *big.Int {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 {
		return nil
	}
	return new(big.Int).SetBytes(raw)
}

// Want is what a token must say.
type Want struct {
	Account string // the service account, NAMESPACE:NAME
	Node    string // the node of its pod
}

// The reasons to refuse a token.
var (
	ErrForged  = errors.New("no key of the cluster has signed it")
	ErrExpired = errors.New("it has expired")
	ErrOther   = errors.New("it is for somebody else, or for another node")
)

// claims are the fields of a token that count.
type claims struct {
	Subject   string   `json:"sub"`
	Audience  audience `json:"aud"`
	Expires   *int64   `json:"exp"`
	NotBefore int64    `json:"nbf"`
	Cluster   struct {
		Node struct {
			Name string `json:"name"`
		} `json:"node"`
		Pod struct {
			UID string `json:"uid"`
		} `json:"pod"`
	} `json:"kubernetes.io"`
}

// audience is a text, or a list of them.
type audience []string

func (a *audience) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(a))
}

// Check verifies a token, and returns when it expires.
func (k Keys) Check(token string, want Want, now time.Time) (expires time.Time, err error) {
	parts := strings.Split(token, ".")
	if len(token) > longest || len(parts) != 3 || !k.signed(parts) {
		return time.Time{}, ErrForged
	}
	var c claims
	if decode(parts[1], &c) != nil || c.Expires == nil {
		return time.Time{}, ErrForged
	}
	expires = time.Unix(*c.Expires, 0)
	switch {
	case !now.Before(expires):
		return time.Time{}, ErrExpired
	case now.Add(skew).Before(time.Unix(c.NotBefore, 0)):
		return time.Time{}, ErrForged
	case want.Node == "" || want.Account == "", c.Subject != "system:serviceaccount:"+want.Account, !slices.Contains(c.Audience, Audience),
		c.Cluster.Node.Name != want.Node, c.Cluster.Pod.UID == "":
		return time.Time{}, ErrOther
	}
	return expires, nil
}

// signed reports whether a key of the cluster has signed a token. The key says by which
// algorithm: what the token says must be the same.
func (k Keys) signed(parts []string) bool {
	var header struct {
		Algorithm string   `json:"alg"`
		ID        string   `json:"kid"`
		Critical  []string `json:"crit"`
	}
	if decode(parts[0], &header) != nil || len(header.Critical) > 0 {
		return false
	}
	found, known := k[header.ID]
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if !known || err != nil || found.algorithm != header.Algorithm {
		return false
	}
	text := []byte(parts[0] + "." + parts[1])
	switch public := found.public.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, sum(crypto.SHA256, text), signature) == nil
	case *ecdsa.PublicKey:
		i := slices.IndexFunc(curves, func(c curve) bool { return c.curve == public.Curve })
		size := curves[i].size()
		return len(signature) == 2*size &&
			ecdsa.Verify(public, sum(curves[i].hash, text), new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:]))
	}
	return false
}

func sum(h crypto.Hash, text []byte) []byte {
	hasher := h.New()
	_, _ = hasher.Write(text) // never fails
	return hasher.Sum(nil)
}

// decode reads a part of a token.
func decode(part string, into any) error {
	text, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
