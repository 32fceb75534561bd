// Package deploy has the manifests of the driver. Its tests hold them against the
// types of Kubernetes and the names in package words.
package deploy

import (
	"bufio"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
