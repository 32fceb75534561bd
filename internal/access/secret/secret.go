// Package secret keeps secrets as hashes, which let nobody in who reads them.
//
// A secret is found by its hash, so the time that takes says nothing about the secrets.
package secret

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
)

// Length is the number of characters of a secret that New makes.
const Length = 43

// New returns a secret of 256 random bits.
func New() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Hash is the SHA-256 of a secret.
type Hash [sha256.Size]byte

// Of returns the hash of a secret.
func Of(secret string) Hash { return sha256.Sum256([]byte(secret)) }

// Parse returns the hash that a text stands for.
func Parse(text string) (h Hash, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(h) {
		return h, errors.New("sha256 is not 64 hexadecimal digits")
	}
	return Hash(b), nil
}

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Kept is a secret that is accepted.
type Kept struct {
	Hash
	Standing context.Context         // ends when the secret is no longer accepted
	End      context.CancelCauseFunc // ends it
}

// Keep returns a secret with this hash, which is accepted.
func Keep(h Hash) Kept {
	k := Kept{Hash: h}
	k.Standing, k.End = context.WithCancelCause(context.Background())
	return k
}
