package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"

	"github.com/berth-gpu/berth/kubernetes/slice"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// write writes a report into the status of a claim. It writes nothing if the status says
// so already, or if the claim is gone.
func (t *teller) write(ctx context.Context, r report) error {
	c, err := t.d.cluster.claim(ctx, r.st.Namespace, r.st.Name, true)
	if err != nil {
		return err
	}
	if !t.d.ours(c, r.st) {
		t.forget(r.st.UID)
		return nil
	}
	data, err := json.Marshal(map[string]any{"lease": r.st.UID, "fence": r.lease.Fence, "enforced_by": r.lease.EnforcedBy})
	if err != nil {
		return err
	}
	var all []*resourceapply.AllocatedDeviceStatusApplyConfiguration
	same := true
	for _, one := range r.st.Results {
		before := statusOf(c, one)
		conditions := r.conditions(before, time.Now())
		same = same && before != nil && sameConditions(before.Conditions, conditions) && before.Data != nil && sameJSON(before.Data.Raw, data)
		status := resourceapply.AllocatedDeviceStatus().WithDriver(words.Driver).WithPool(one.Pool).WithDevice(one.Device).
			WithData(runtime.RawExtension{Raw: data})
		if one.Share != "" {
			status.WithShareID(one.Share)
		}
		for _, condition := range conditions {
			status.WithConditions(metaapply.Condition().WithType(condition.Type).WithStatus(condition.Status).
				WithReason(condition.Reason).WithMessage(condition.Message).WithLastTransitionTime(condition.LastTransitionTime))
		}
		all = append(all, status)
	}
	if same {
		return nil
	}
	return t.d.cluster.report(ctx, c, all)
}

// statusOf returns the status of one of the devices of a claim.
func statusOf(c *resourcev1.ResourceClaim, one result) *resourcev1.AllocatedDeviceStatus {
	for i, s := range c.Status.Devices {
		share := ""
		if s.ShareID != nil {
			share = *s.ShareID
		}
		if s.Driver == words.Driver && s.Pool == one.Pool && s.Device == one.Device && share == one.Share {
			return &c.Status.Devices[i]
		}
	}
	return nil
}

// maxMessage is the longest message of a condition.
const maxMessage = 4096

// conditions returns the conditions of a device. A condition that has not changed keeps
// its time.
func (r *report) conditions(before *resourcev1.AllocatedDeviceStatus, now time.Time) []metav1.Condition {
	all := []metav1.Condition{r.ready(), r.enforced(before), r.withinLimit()}
	if r.st.parkable() {
		all = append(all, r.onDevice())
	}
	for i := range all {
		all[i].Message = cut(all[i].Message, maxMessage)
		all[i].LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		if old := conditionOf(before, all[i].Type); old != nil && old.Status == all[i].Status {
			all[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	return all
}

func (r *report) ready() metav1.Condition {
	if r.refused != "" {
		return metav1.Condition{Type: words.Ready, Status: metav1.ConditionFalse, Reason: camel(r.code), Message: r.refused}
	}
	var parts []string
	for _, p := range r.lease.Parts {
		slots := "slots"
		if p.Slots == 1 {
			slots = "slot"
		}
		parts = append(parts, fmt.Sprintf("%s and %d %s on %s", p.Memory, p.Slots, slots, p.GPU))
	}
	return metav1.Condition{Type: words.Ready, Status: metav1.ConditionTrue, Reason: "Leased", Message: "The lease holds " + strings.Join(parts, ", ") + "."}
}

func (r *report) enforced(before *resourcev1.AllocatedDeviceStatus) metav1.Condition {
	c := metav1.Condition{Type: words.Enforced, Status: metav1.ConditionTrue, Reason: r.lease.EnforcedBy, Message: r.receipt}
	switch c.Reason {
	case "":
		c.Status, c.Reason = metav1.ConditionUnknown, "unknown"
	case "none":
		c.Status = metav1.ConditionFalse
	}
	if old := conditionOf(before, words.Enforced); c.Message == "" && old != nil && old.Reason == c.Reason {
		c.Message = old.Message
	}
	return c
}

func (r *report) withinLimit() metav1.Condition {
	if r.over != "" {
		return metav1.Condition{Type: words.WithinLimit, Status: metav1.ConditionFalse, Reason: "OverLimit", Message: r.over}
	}
	return metav1.Condition{Type: words.WithinLimit, Status: metav1.ConditionTrue, Reason: "WithinLimit", Message: "Its processes use no more memory than the lease holds."}
}

// onDevice says whether the memory of the claim's processes is on the device.
func (r *report) onDevice() metav1.Condition {
	if r.parked != "" {
		return metav1.Condition{Type: words.OnDevice, Status: metav1.ConditionFalse, Reason: "Parked", Message: r.parked}
	}
	return metav1.Condition{Type: words.OnDevice, Status: metav1.ConditionTrue, Reason: "OnDevice", Message: "The memory of its processes is on the device. berth may park it while others at the node wait for the device."}
}

func conditionOf(s *resourcev1.AllocatedDeviceStatus, kind string) *metav1.Condition {
	if s == nil {
		return nil
	}
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

func sameConditions(before, now []metav1.Condition) bool {
	if len(before) != len(now) {
		return false
	}
	for _, c := range now {
		old := conditionOf(&resourcev1.AllocatedDeviceStatus{Conditions: before}, c.Type)
		if old == nil || old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message {
			return false
		}
	}
	return true
}

func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	var one, other any
	if json.Unmarshal(a, &one) != nil || json.Unmarshal(b, &other) != nil {
		return false
	}
	return json.NewEncoder(&x).Encode(one) == nil && json.NewEncoder(&y).Encode(other) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// camel writes a code as the reason of a condition: insufficient_memory as
// InsufficientMemory.
func camel(code string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(code, "_") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	if b.Len() == 0 {
		return "Refused"
	}
	return b.String()
}

// healthAgain is how often the driver repeats health that has not changed. Kubelet
// forgets it after 30 seconds.
const healthAgain = 10 * time.Second

// setHealth sets the health of the devices and notifies its watchers. The caller holds
// d.mu.
func (d *Driver) setHealth(now []slice.Health) {
	if slices.Equal(d.health, now) {
		return
	}
	d.health = slices.Clone(now)
	close(d.healthNews)
	d.healthNews = make(chan struct{})
}

// watchHealth calls report with the health of all devices, whenever it changes and every
// ten seconds, until ctx ends. at is when the daemon last answered.
func (d *Driver) watchHealth(ctx context.Context, report func(all []slice.Health, at time.Time) bool) {
	for {
		d.mu.Lock()
		all, at, news := d.health, d.heard, d.healthNews
		d.mu.Unlock()
		if len(all) > 0 && !report(all, at) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-news:
		case <-time.After(healthAgain):
		}
	}
}
