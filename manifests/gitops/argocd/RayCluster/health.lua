-- Health of a RayCluster, from the object alone. Lua 5.1 without libraries. Fields and reasons: KubeRay 1.6
-- (ray-operator/apis/ray/v1/raycluster_types.go).

local status = obj.status or {}
local labels = obj.metadata.labels or {}

local function result(state, message)
  return {status = state, message = message}
end

-- The first of two texts that says something.
local function text(one, other)
  if one ~= nil and one ~= "" then
    return one
  end
  return other
end

local function condition(kind)
  for _, one in ipairs(status.conditions or {}) do
    if one.type == kind then
      return one
    end
  end
  return {}
end

if obj.metadata.deletionTimestamp ~= nil then
  return result("Progressing", "is being deleted")
end
if (obj.spec or {}).suspend then
  return result("Suspended", "is suspended")
end
if status.observedGeneration == nil or status.observedGeneration < (obj.metadata.generation or 0) then
  return result("Progressing", "the operator has not accepted the last change")
end
for _, kind in ipairs({"RayClusterSuspending", "RayClusterSuspended"}) do
  if condition(kind).status == "True" then
    return result("Suspended", "is suspended")
  end
end

local failure = condition("ReplicaFailure")
if failure.status == "True" then
  return result("Degraded", text(failure.message, text(failure.reason, "pods cannot be made")))
end
local head = condition("HeadPodReady")
local waiting = {
  CrashLoopBackOff = true, CreateContainerConfigError = true, CreateContainerError = true, ErrImagePull = true,
  ImagePullBackOff = true, InvalidImageName = true, RunContainerError = true, OOMKilled = true, Error = true,
}
if head.status == "False" and waiting[head.reason] then
  return result("Degraded", "head: " .. text(head.message, head.reason))
end
if head.status ~= "True" then
  return result("Progressing", text(head.message, "the head is not ready"))
end
-- The condition stays True once all pods have run, so the workers are counted as well.
if condition("RayClusterProvisioned").status ~= "True" then
  return result("Progressing", "not all pods have run yet")
end
-- A worker of a RayService that holds no replica is not ready, by design.
local up = status.readyWorkerReplicas
if labels["ray.io/originated-from-crd"] == "RayService" then
  up = status.availableWorkerReplicas
end
if (up or 0) < (status.desiredWorkerReplicas or 0) then
  return result("Progressing", (up or 0) .. " of " .. status.desiredWorkerReplicas .. " workers")
end
return result("Healthy", "all pods run")
