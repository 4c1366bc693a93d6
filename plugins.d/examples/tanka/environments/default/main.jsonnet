local web = import 'web.libsonnet';

{ web: web.service('web', 80) }
