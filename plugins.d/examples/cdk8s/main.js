const { App, ApiObject, Chart } = require('cdk8s');

const app = new App();
const chart = new Chart(app, 'web');
for (const side of ['blue', 'green']) {
  new ApiObject(chart, side, {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: `${process.env.ARGOCD_APP_NAME}-${side}` },
    spec: { ports: [{ port: 80 }] },
  });
}
console.log(app.synthYaml());
