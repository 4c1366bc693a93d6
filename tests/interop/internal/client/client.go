// Package client calls a plugin server with Argo CD's own code: its dialer, its
// generated stubs, and its archive sender with its chunk size.
package client

import (
	"context"
	"fmt"

	plugins "github.com/argoproj/argo-cd/v3/cmpserver/apiclient"
	repository "github.com/argoproj/argo-cd/v3/reposerver/apiclient"
	"github.com/argoproj/argo-cd/v3/util/cmp"
	grpc_retry "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/grpc"
)

// Client is one connection to a plugin's socket.
type Client struct {
	Conn *grpc.ClientConn
	plugins.ConfigManagementPluginServiceClient
}

// App is an application as the repo-server sends it.
type App struct {
	// Root is the directory that is sent; Path is the application's directory in it.
	Root, Path string
	// Env is a list of NAME=VALUE.
	Env []string
	// Exclude is the list of patterns of `--plugin-tar-exclude`.
	Exclude []string
}

// Dial connects as the repo-server does. That dialer waits without a limit for a
// server that never answers, so it gets a context.
func Dial(ctx context.Context, socket string) (*Client, error) {
	type outcome struct {
		conn *grpc.ClientConn
		err  error
	}
	dialled := make(chan outcome, 1)
	go func() {
		conn, err := plugins.NewConnection(socket)
		dialled <- outcome{conn, err}
	}()
	select {
	case got := <-dialled:
		if got.err != nil {
			return nil, got.err
		}
		return &Client{got.conn, plugins.NewConfigManagementPluginServiceClient(got.conn)}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s took the connection and never became ready: %w", socket, ctx.Err())
	}
}

// Close ends the connection.
func (c *Client) Close() { _ = c.Conn.Close() }

// Generate renders the application.
func (c *Client) Generate(ctx context.Context, app App) ([]string, error) {
	// Cancelling on return frees the stream if sending failed midway.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.GenerateManifest(ctx, grpc_retry.Disable())
	if err != nil {
		return nil, err
	}
	if err := app.send(stream.Context(), stream); err != nil {
		return nil, err
	}
	response, err := stream.CloseAndRecv()
	return response.GetManifests(), err
}

// Match asks if the plugin's discovery claims the application.
func (c *Client) Match(ctx context.Context, app App) (*plugins.RepositoryResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.MatchRepository(ctx, grpc_retry.Disable())
	if err != nil {
		return nil, err
	}
	if err := app.send(ctx, stream); err != nil {
		return nil, err
	}
	return stream.CloseAndRecv()
}

// Parameters lists the announced parameters.
func (c *Client) Parameters(ctx context.Context, app App) ([]*repository.ParameterAnnouncement, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.GetParametersAnnouncement(ctx, grpc_retry.Disable())
	if err != nil {
		return nil, err
	}
	if err := app.send(stream.Context(), stream); err != nil {
		return nil, err
	}
	response, err := stream.CloseAndRecv()
	return response.GetParameterAnnouncements(), err
}

func (a App) send(ctx context.Context, stream cmp.StreamSender) error {
	return cmp.SendRepoStream(ctx, a.Path, a.Root, stream, a.Env, a.Exclude)
}
