package interop

import (
	"errors"
	"slices"
	"testing"

	"cmp-supervisor/tests/interop/internal/client"
	"cmp-supervisor/tests/interop/internal/plugin"
	"cmp-supervisor/tests/interop/internal/tree"

	version "github.com/argoproj/argo-cd/v3/pkg/apiclient/version"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/types/known/emptypb"
)

// checkConfiguration makes the cheapest call on a new connection.
func checkConfiguration(t *testing.T, s subject, d plugin.Definition) error {
	t.Helper()
	_, err := s.dial(t, d).CheckPluginConfiguration(within(t, callWithin), &emptypb.Empty{})
	return err
}

func TestTheConfigurationIsTold(t *testing.T) {
	cases := []struct {
		definition         plugin.Definition
		discovery, gitCred bool
	}{
		{discovering("file-name", `{fileName: x}`), true, false},
		{discovering("glob", `{find: {glob: x}}`), true, false},
		{discovering("command", `{find: {command: [x]}}`), true, false},
		{discovering("only-args", `{find: {args: [x]}}`), false, false},
		{discovering("nameless-command", `{find: {command: ['']}}`), true, false},
		{discovering("space", `{fileName: ' '}`), true, false},
		{discovering("empty-command", `{find: {command: []}}`), false, false},
		{plugin.Shell("none", "true"), false, false},
		{plugin.Definition{Name: "credentials", Spec: "provideGitCreds: true\ngenerate: {command: [x]}"}, false, true},
		// A misspelt key is ignored.
		{plugin.Definition{Name: "misspelt", Spec: "discovery: {fileName: x}\ngenerate: {command: [x]}"}, false, false},
	}
	definitions := make([]plugin.Definition, len(cases))
	for i, c := range cases {
		definitions[i] = c.definition
	}
	onEach(t, func(t *testing.T, s subject) {
		for _, this := range cases {
			got, err := s.dial(t, this.definition).CheckPluginConfiguration(within(t, callWithin), &emptypb.Empty{})
			if err != nil || got.GetIsDiscoveryConfigured() != this.discovery || got.GetProvideGitCreds() != this.gitCred {
				t.Errorf("%s: expected isDiscoveryConfigured=%v provideGitCreds=%v, got %v, error %v", this.definition.Name, this.discovery, this.gitCred, got, err)
			}
		}
	}, definitions...)
}

func TestAVersionIsPartOfTheSocketName(t *testing.T) {
	definitions := []plugin.Definition{
		{Name: "cat", Version: "v1.0", Spec: plugin.Shell("", "echo 'kind: Old'").Spec},
		{Name: "cat", Version: "v2.0", Spec: plugin.Shell("", "echo 'kind: New'").Spec},
		plugin.Shell("cat", "echo 'kind: Bare'"),
	}
	onEach(t, func(t *testing.T, s subject) {
		repo := repositoryOf(t, tree.Files{"x": "x"})
		for i, want := range []string{`{"kind":"Old"}`, `{"kind":"New"}`, `{"kind":"Bare"}`} {
			got, err := s.generate(t, definitions[i], repo)
			rendered(t, got, err, want)
		}
	}, definitions...)
}

func TestHealthIsServing(t *testing.T) {
	d := plugin.Shell("cat", "true")
	onEach(t, func(t *testing.T, s subject) {
		c := health.NewHealthClient(s.dial(t, d).Conn)
		got, err := c.Check(within(t, callWithin), &health.HealthCheckRequest{})
		if err != nil || got.GetStatus() != health.HealthCheckResponse_SERVING {
			t.Errorf("expected SERVING, got %v, error %v", got, err)
		}
		for _, unknown := range []string{"x", "plugin.ConfigManagementPluginService"} {
			_, err = c.Check(within(t, callWithin), &health.HealthCheckRequest{Service: unknown})
			refused(t, s, err, codes.NotFound, "unknown service")
		}
		list, err := c.List(within(t, callWithin), &health.HealthListRequest{})
		if err != nil || len(list.GetStatuses()) != 1 || list.GetStatuses()[""].GetStatus() != health.HealthCheckResponse_SERVING {
			t.Errorf("expected the whole server alone to be listed as SERVING, got %v, error %v", list, err)
		}
		watch, err := c.Watch(within(t, callWithin), &health.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := watch.Recv(); err != nil || got.GetStatus() != health.HealthCheckResponse_SERVING {
			t.Errorf("expected to watch SERVING, got %v, error %v", got, err)
		}
	}, d)
}

func TestReflectionListsTheServices(t *testing.T) {
	want := []string{
		"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
		"plugin.ConfigManagementPluginService", "version.VersionService",
	}
	d := plugin.Shell("cat", "true")
	onEach(t, func(t *testing.T, s subject) {
		c := s.dial(t, d)
		for name, list := range map[string]func(*testing.T, *client.Client) ([]string, error){"v1": listServices, "v1alpha": listServicesAlpha} {
			got, err := list(t, c)
			slices.Sort(got)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: expected %q, got %q, error %v", name, want, got, err)
			}
		}
	}, d)
}

func listServices(t *testing.T, c *client.Client) ([]string, error) {
	t.Helper()
	stream, err := reflection.NewServerReflectionClient(c.Conn).ServerReflectionInfo(within(t, callWithin))
	if err != nil {
		return nil, err
	}
	request := &reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{}}
	answer, err := ask(stream, request)
	var names []string
	for _, service := range answer.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	return names, err
}

func listServicesAlpha(t *testing.T, c *client.Client) ([]string, error) {
	t.Helper()
	stream, err := reflectionalpha.NewServerReflectionClient(c.Conn).ServerReflectionInfo(within(t, callWithin))
	if err != nil {
		return nil, err
	}
	request := &reflectionalpha.ServerReflectionRequest{MessageRequest: &reflectionalpha.ServerReflectionRequest_ListServices{}}
	answer, err := ask(stream, request)
	var names []string
	for _, service := range answer.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	return names, err
}

// ask sends one request on a bidirectional stream and receives one answer.
func ask[Request, Answer any](stream interface {
	Send(Request) error
	Recv() (Answer, error)
	CloseSend() error
}, request Request) (Answer, error) {
	if err := stream.Send(request); err != nil {
		var none Answer
		return none, err
	}
	answer, err := stream.Recv()
	return answer, errors.Join(err, stream.CloseSend())
}

func TestTheVersionIsTold(t *testing.T) {
	d := plugin.Shell("cat", "true")
	onEach(t, func(t *testing.T, s subject) {
		got, err := version.NewVersionServiceClient(s.dial(t, d).Conn).Version(within(t, callWithin), &emptypb.Empty{})
		if err != nil || got.GetVersion() == "" || got.GetPlatform() == "" || got.GetCompiler() == "" {
			t.Errorf("expected Version, Platform and Compiler, got %v, error %v", got, err)
		}
	}, d)
}

func TestAnUnknownMethodIsUnimplemented(t *testing.T) {
	d := plugin.Shell("cat", "true")
	onEach(t, func(t *testing.T, s subject) {
		c := s.dial(t, d)
		for path, want := range map[string]string{
			"/plugin.ConfigManagementPluginService/Future": "unknown method Future for service plugin.ConfigManagementPluginService",
			"/plugin.ConfigManagementPluginService/":       "unknown method  for service plugin.ConfigManagementPluginService",
			"/future.Service/Method":                       "unknown service future.Service",
			"/future":                                      `malformed method name: "/future"`,
		} {
			err := c.Conn.Invoke(within(t, callWithin), path, &emptypb.Empty{}, &emptypb.Empty{})
			refused(t, s, err, codes.Unimplemented, want)
		}
		// The server must still work.
		if _, err := c.CheckPluginConfiguration(within(t, callWithin), &emptypb.Empty{}); err != nil {
			t.Errorf("expected the connection to live on, got %v", err)
		}
	}, d)
}
