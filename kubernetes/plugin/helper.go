package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/slice"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// This is the only file that uses Kubernetes' helper for drivers.

// serve registers the driver with kubelet. stop ends the registration.
func (d *Driver) serve(ctx context.Context, fail context.CancelCauseFunc) (stop func(), err error) {
	for _, dir := range []string{d.o.dataDir(), d.o.Registry} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, err
		}
	}
	options := []kubeletplugin.Option{
		kubeletplugin.DriverName(words.Driver),
		kubeletplugin.KubeClient(d.o.Kube),
		kubeletplugin.NodeName(d.o.Node),
		kubeletplugin.RegistrarDirectoryPath(d.o.Registry),
		kubeletplugin.PluginDataDirectoryPath(d.o.dataDir()),
		kubeletplugin.Serialize(false), // reconcile needs the same lock, so the driver has its own
		kubeletplugin.GRPCInterceptor(d.seeRegistration),
	}
	if d.o.PodUID != "" {
		options = append(options, kubeletplugin.RollingUpdate(types.UID(d.o.PodUID)))
	}
	helper, err := kubeletplugin.Start(ctx, &served{d, fail}, options...)
	if err != nil {
		return nil, err
	}
	d.publish = func(ctx context.Context, devices []resourcev1.Device) error {
		return helper.PublishResources(ctx, pool(d.o.Node, devices))
	}
	close(d.serving)
	return helper.Stop, nil
}

// pool returns the only pool of a node.
func pool(node string, devices []resourcev1.Device) resourceslice.DriverResources {
	var all []resourceslice.Slice
	for _, some := range slice.Split(devices) {
		all = append(all, resourceslice.Slice{Devices: some})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: {Slices: all}}}
}

// pcieRoot returns the PCIe root complex of a PCI address, or "" if the machine does not
// say.
func pcieRoot(address string) string {
	root, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(address)
	if err != nil || root.Value.StringValue == nil {
		return ""
	}
	return *root.Value.StringValue
}

// seeRegistration notices when kubelet has registered the driver.
func (d *Driver) seeRegistration(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	answer, err := handler(ctx, req)
	if status, ok := req.(interface{ GetPluginRegistered() bool }); ok && strings.HasSuffix(info.FullMethod, "/NotifyRegistrationStatus") {
		d.mu.Lock()
		d.registered = status.GetPluginRegistered()
		d.mu.Unlock()
	}
	return answer, err
}

// served is the driver as the helper calls it.
type served struct {
	*Driver
	fail context.CancelCauseFunc
}

var _ kubeletplugin.DRAPlugin = (*served)(nil)

// PrepareResourceClaims prepares the claims of a pod.
func (s *served) PrepareResourceClaims(ctx context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	<-s.serving
	devices, failed := s.prepareAll(ctx, claims)
	answer := map[types.UID]kubeletplugin.PrepareResult{}
	for _, c := range claims {
		one := kubeletplugin.PrepareResult{Err: failed[string(c.UID)]}
		for _, p := range devices[string(c.UID)] {
			device := kubeletplugin.Device{Requests: []string{p.Request}, PoolName: p.Pool, DeviceName: p.Device, CDIDeviceIDs: p.cdi}
			if p.Share != "" {
				share := types.UID(p.Share)
				device.ShareID = &share
			}
			one.Devices = append(one.Devices, device)
		}
		answer[c.UID] = one
	}
	return answer, nil
}

// UnprepareResourceClaims undoes what PrepareResourceClaims did.
func (s *served) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	var uids []string
	for _, c := range claims {
		uids = append(uids, string(c.UID))
	}
	<-s.serving
	answer := map[types.UID]error{}
	for uid, err := range s.unprepareAll(ctx, uids) {
		answer[types.UID(uid)] = err
	}
	return answer, nil
}

// HandleError handles an error of the background. Only an error that cannot be mended
// ends the driver.
func (s *served) HandleError(ctx context.Context, err error, msg string) {
	var dropped *resourceslice.DroppedFieldsError
	if errors.As(err, &dropped) {
		s.drops(dropped.DisabledFeatures())
		return
	}
	s.o.Metrics.ClusterFailed("publish", err)
	klog.FromContext(ctx).Error(err, msg)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		s.fail(fmt.Errorf("%s: %w", msg, err))
	}
}

// WatchHealthStatus reports the health of devices.
func (s *served) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	s.watchHealth(ctx, func(all []slice.Health, at time.Time) bool {
		var report kubeletplugin.DeviceHealthReport
		for _, h := range all {
			report.Devices = append(report.Devices, kubeletplugin.DeviceHealth{
				PoolName: s.o.Node, DeviceName: h.Device, Health: healthStatus(h.State), LastUpdated: at, Message: h.Message,
			})
		}
		select {
		case <-ctx.Done():
			return false
		case reports <- report:
			return true
		}
	})
	return nil
}

func healthStatus(h gpu.Health) kubeletplugin.HealthStatus {
	switch h {
	case gpu.Healthy:
		return kubeletplugin.HealthStatusHealthy
	case gpu.Unhealthy:
		return kubeletplugin.HealthStatusUnhealthy
	}
	return kubeletplugin.HealthStatusUnknown
}
