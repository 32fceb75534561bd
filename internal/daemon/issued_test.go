package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/access/bound"
	"github.com/berth-gpu/berth/internal/config"
)

// clusterKey is a key of a cluster.
type clusterKey struct {
	id      string
	private *ecdsa.PrivateKey
}

func newClusterKey(t *testing.T, id string) clusterKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return clusterKey{id, k}
}

func inBase64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// file returns the keys of the cluster as their file has them.
func (k clusterKey) file() string {
	point, _ := k.private.PublicKey.Bytes()
	return fmt.Sprintf(`{"keys":[{"use":"sig","kty":"EC","kid":%q,"crv":"P-256","x":%q,"y":%q}]}`, k.id, inBase64(point[1:33]), inBase64(point[33:]))
}

// token returns the driver's token for a node.
func (k clusterKey) token(t *testing.T, node string, ends time.Time) string {
	t.Helper()
	header, _ := json.Marshal(map[string]string{"alg": "ES256", "kid": k.id})
	claims, _ := json.Marshal(map[string]any{"sub": "system:serviceaccount:berth-system:berth-dra", "aud": []string{"berth"}, "exp": ends.Unix(),
		"kubernetes.io": map[string]any{"node": map[string]any{"name": node}, "pod": map[string]any{"uid": "u"}}})
	text := inBase64(header) + "." + inBase64(claims)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, k.private, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + inBase64(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// The daemon takes the tokens of its own node, and reads the keys again when the cluster
// has exchanged them, but not for every forger.
func TestTokensOfACluster(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, second := newClusterKey(t, "1"), newClusterKey(t, "2")
	write(first.file())
	c := config.Daemon{ClusterKeys: path, ClusterAccount: "berth-system:berth-dra", ClusterNode: "node-1"}
	i, err := readIssued(c, "host", nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_800_000_000, 0)
	ends := now.Add(time.Hour)
	if got, err := i.check(first.token(t, "node-1", ends), now); err != nil || !got.Equal(ends) {
		t.Errorf("its own token: %v, %v", got, err)
	}
	if _, err := i.check(first.token(t, "node-2", ends), now); !errors.Is(err, bound.ErrOther) {
		t.Errorf("the token of another node: %v", err)
	}
	forged := second.token(t, "node-1", ends)
	if _, err := i.check(forged, now); !errors.Is(err, bound.ErrForged) {
		t.Errorf("a token of an unknown key: %v", err)
	}
	write(second.file())
	if _, err := i.check(forged, now.Add(keysAgain-time.Second)); !errors.Is(err, bound.ErrForged) {
		t.Errorf("the keys are read again at once: %v", err)
	}
	if _, err := i.check(forged, now.Add(keysAgain)); err != nil {
		t.Errorf("after the keys were exchanged: %v", err)
	}
	if _, err := i.check(first.token(t, "node-1", ends), now.Add(keysAgain)); !errors.Is(err, bound.ErrForged) {
		t.Errorf("a token of the old key: %v", err)
	}
	write("broken")
	if _, err := i.check(first.token(t, "node-1", ends), now.Add(3*keysAgain)); !errors.Is(err, bound.ErrForged) {
		t.Errorf("a broken file: %v", err)
	}
	if _, err := i.check(forged, now.Add(3*keysAgain)); err != nil {
		t.Errorf("the keys of before a broken file: %v", err)
	}
	if _, err := readIssued(c, "host", nil); err == nil || !strings.Contains(err.Error(), "kubectl get --raw /openid/v1/jwks") {
		t.Errorf("a daemon that starts with a broken file: %v", err)
	}
	none, err := readIssued(config.Daemon{}, "host", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.check(forged, now); !errors.Is(err, bound.ErrForged) {
		t.Errorf("a daemon without keys: %v", err)
	}
}
