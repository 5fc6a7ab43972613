"""The objects of a store: `children` and `pod_template` say what they should be, `children_apply`
keeps them so, `rollout` restarts pods one by one, `volumes` grows claims, `deletion` ends a
store. `pod_failure` and `missing_pods` say why a pod does not run, `nodes` reads zones.
"""
