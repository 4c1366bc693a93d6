{
  service(name, port):: {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: name },
    spec: { ports: [{ port: port }] },
  },
}
