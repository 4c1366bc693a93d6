local web = import 'web.libsonnet';

[web.service(std.extVar('name') + '-' + side, 80) for side in ['blue', 'green']]
