// Package deploy has the manifests of the driver. Its tests hold them against the
// types of Kubernetes and the names in package words.
package deploy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-gpu/berth/kubernetes/words"
)

// update writes the manifests that are made of other files of the repository.
var update = flag.Bool("update", false, "write rules.yaml of the component metrics")

// rulesHead is what stands above the rules of the daemon in a PrometheusRule.
const rulesHead = `# Made of deploy/prometheus/berth.rules.yml by go test ./deploy -update, and the same rules;
# docs/guide/monitoring.md says what to do when one comes.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: berth
  namespace: berth-system
  labels:
    app.kubernetes.io/name: berth
    app.kubernetes.io/part-of: berth
spec:
`

// The daemon's rules in the cluster are those of deploy/prometheus. Kustomize cannot put
// a file outside of its folder below spec, so there is a copy, which this test holds.
func TestRulesAreThoseOfTheDaemon(t *testing.T) {
	const file = "components/metrics/rules.yaml"
	text, err := os.ReadFile("../../deploy/prometheus/berth.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	want := rulesHead
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) != "" {
			line = "  " + line
		}
		want += line
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not made of deploy/prometheus/berth.rules.yml (%v): go test ./deploy -update", file, err)
	}
}

// The dashboard of pods asks for metrics that the driver and the daemon have.
func TestDashboardOfPods(t *testing.T) {
	text, err := os.ReadFile("components/metrics/berth-pods.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		UID    string
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	driver, err := os.ReadFile("../export/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	daemon, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	metric, asked, ids := regexp.MustCompile(`\b(berth|gpu)_[a-z_]+\b`), 0, map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || len(p.Targets) == 0 {
			t.Errorf("the panel %q has the number %d and %d queries", p.Title, p.ID, len(p.Targets))
		}
		ids[p.ID] = true
		for _, q := range p.Targets {
			for _, name := range metric.FindAllString(q.Expr, -1) {
				asked++
				if !bytes.Contains(driver, []byte(name)) && !bytes.Contains(daemon, []byte(name)) {
					t.Errorf("the panel %q asks for %s, which nobody has", p.Title, name)
				}
			}
		}
	}
	if board.UID == "berth" || asked < 10 {
		t.Errorf("the dashboard %q asks for %d metrics", board.UID, asked)
	}
}

// objects returns every object below the folders, each checked for fields that its
// type does not have. Objects of kustomize and of the Prometheus operator are left out.
func objects(t *testing.T, folders ...string) (all []runtime.Object) {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" || filepath.Base(path) == "berth.yaml" || filepath.Base(path) == "kustomization.yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			in := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
			for document, err := in.Read(); err != io.EOF; document, err = in.Read() {
				if err != nil {
					return err
				}
				if bytes.Contains(document, []byte("monitoring.coreos.com/v1")) {
					continue
				}
				object, _, err := decoder.Decode(document, nil, nil)
				if err != nil {
					t.Errorf("%s: %v", path, err)
					continue
				}
				all = append(all, object)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// the returns the only object of a type with a name.
func the[T runtime.Object](t *testing.T, all []runtime.Object, name func(T) bool) (found T) {
	t.Helper()
	count := 0
	for _, o := range all {
		if typed, is := o.(T); is && name(typed) {
			found, count = typed, count+1
		}
	}
	if count != 1 {
		t.Fatalf("%d objects of the type %T", count, found)
	}
	return found
}

func TestManifestsAreValid(t *testing.T) {
	if n := len(objects(t, ".", "../../examples/kubernetes")); n < 25 {
		t.Errorf("%d objects: some folder is not read", n)
	}
}

// The driver runs without privileges, and sees only the folders that it needs.
// Kustomize changes the namespace of everything but the text of a condition. The policies
// hold the driver's account in whatever namespace.
func TestThePoliciesMatchTheDriverInEveryNamespace(t *testing.T) {
	account := regexp.MustCompile(`^request\.userInfo\.username\.matches\("(.*)"\)$`)
	n := 0
	for _, o := range objects(t, "base") {
		p, is := o.(*admissionv1.ValidatingAdmissionPolicy)
		if !is {
			continue
		}
		n++
		m := account.FindStringSubmatch(p.Spec.MatchConditions[0].Expression)
		if m == nil {
			t.Errorf("%s: %s", p.Name, p.Spec.MatchConditions[0].Expression)
			continue
		}
		for name, want := range map[string]bool{
			"system:serviceaccount:berth-system:berth-dra": true, "system:serviceaccount:gpu:berth-dra": true,
			"system:serviceaccount:gpu:other-berth-dra": false, "system:serviceaccount:berth-dra:default": false, "system:admin": false,
		} {
			if got := regexp.MustCompile(m[1]).MatchString(name); got != want {
				t.Errorf("%s matches %s: %t", p.Name, name, got)
			}
		}
	}
	if n != 2 {
		t.Errorf("there are %d policies", n)
	}
}

func TestTheDriverIsConfined(t *testing.T) {
	all := objects(t, "base")
	set := the(t, all, func(d *appsv1.DaemonSet) bool { return d.Name == "berth-dra" })
	pod := set.Spec.Template.Spec
	c := pod.Containers[0]
	s := c.SecurityContext
	if pod.HostPID || pod.HostNetwork || pod.HostIPC || len(pod.Containers) != 1 || *s.Privileged || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem ||
		len(s.Capabilities.Add) > 0 || !slices.Contains(s.Capabilities.Drop, "ALL") || *pod.SecurityContext.RunAsUser != 0 || pod.PriorityClassName != "system-node-critical" {
		t.Errorf("%+v, %+v", pod, s)
	}
	if r := set.Spec.UpdateStrategy.RollingUpdate; r.MaxSurge.IntValue() != 1 || r.MaxUnavailable.IntValue() != 0 {
		t.Errorf("a rollout leaves a gap: %+v", r)
	}
	var paths []string
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			paths = append(paths, v.HostPath.Path)
		}
	}
	want := []string{"/etc/cdi", "/run/berth", "/var/lib/kubelet/plugins/" + words.Driver, "/var/lib/kubelet/plugins_registry", "/var/run/cdi"}
	if slices.Sort(paths); !slices.Equal(paths, want) {
		t.Errorf("it mounts %q, want %q", paths, want)
	}
	for _, m := range c.VolumeMounts { // kubelet gets the paths that the driver sees
		if strings.HasPrefix(m.MountPath, "/etc/berth-dra") || slices.Contains(want, m.MountPath) {
			continue
		}
		t.Errorf("%s lies elsewhere in the container: %s", m.Name, m.MountPath)
	}
}

func TestWhatTheDriverMayDo(t *testing.T) {
	role := the(t, objects(t, "base"), func(r *rbacv1.ClusterRole) bool { return r.Name == "berth-dra" })
	want := map[string]string{
		"resourceclaims": "get list", "resourceclaims/status": "patch update",
		"resourceclaims/driver": "associated-node:patch associated-node:update",
		"resourceslices":        "get list watch create update patch delete",
		"nodes":                 "get", "events": "create patch",
	}
	for _, rule := range role.Rules {
		for _, r := range rule.Resources {
			if got := strings.Join(rule.Verbs, " "); want[r] != got {
				t.Errorf("%s: %s, want %q", r, got, want[r])
			}
			if r == "resourceclaims/driver" && !slices.Equal(rule.ResourceNames, []string{words.Driver}) {
				t.Errorf("it may write the devices of %q", rule.ResourceNames)
			}
			delete(want, r)
		}
	}
	if len(want) > 0 {
		t.Errorf("not granted: %v", want)
	}
}

// The names in the manifests are those that the driver uses.
func TestNames(t *testing.T) {
	all := objects(t, "base")
	class := the(t, all, func(c *resourcev1.DeviceClass) bool { return c.Name == words.Driver })
	if e := class.Spec.Selectors[0].CEL.Expression; e != `device.driver == "`+words.Driver+`"` {
		t.Errorf("the class selects %s", e)
	}
	policy := the(t, all, func(p *admissionv1.ValidatingAdmissionPolicy) bool { return p.Name == "berth-dra-own-node" })
	if !slices.ContainsFunc(policy.Spec.Validations, func(v admissionv1.Validation) bool {
		return v.Expression == "variables.slices.all(s, s.spec.pool.name == variables.caller)"
	}) {
		t.Error("a driver may write the pool of another node")
	}
	if last := policy.Spec.Validations[len(policy.Spec.Validations)-1].Expression; !strings.Contains(last, `"`+words.Driver+`"`) || *policy.Spec.FailurePolicy != admissionv1.Fail {
		t.Errorf("the policy checks %s", last)
	}
}
