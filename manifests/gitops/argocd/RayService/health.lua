-- Health of a RayService, from the object alone. Lua 5.1 without libraries. Fields and reasons: KubeRay 1.6
-- (ray-operator/apis/ray/v1/rayservice_types.go); states of applications and deployments: Ray Serve.

local status = obj.status or {}
local generation = obj.metadata.generation or 0

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

local function condition(kind, of)
  for _, one in ipairs((of or status).conditions or {}) do
    if one.type == kind then
      return one
    end
  end
  return {}
end

-- The first application or deployment in one of `states`, as text; nil if there is none.
local function found(service, states)
  for name, app in pairs((service or {}).applicationStatuses or {}) do
    if states[app.status] then
      return "application " .. name .. " is " .. app.status .. ": " .. (app.message or "")
    end
    for deployment, one in pairs(app.serveDeploymentStatuses or {}) do
      if states[one.status] then
        return "deployment " .. deployment .. " is " .. one.status .. ": " .. (one.message or "")
      end
    end
  end
  return nil
end

local ready = condition("Ready")

if obj.metadata.deletionTimestamp ~= nil then
  return result("Progressing", "is being deleted")
end
-- A RayService is suspended itself (KubeRay 1.7), by its template, or by its RayCluster.
local spec = obj.spec or {}
local cluster = (status.activeServiceStatus or {}).rayClusterStatus or {}
if spec.suspend or (spec.rayClusterConfig or {}).suspend then
  return result("Suspended", "is suspended")
end
-- KubeRay leaves observedGeneration as it is when it rejects an object; the condition has its own.
if ready.status == "False" and ready.reason == "ValidationFailed"
    and (ready.observedGeneration or status.observedGeneration or generation) >= generation then
  return result("Degraded", text(ready.message, "KubeRay rejected the RayService"))
end
local observed = status.observedGeneration or ready.observedGeneration
if observed ~= nil and observed < generation then
  return result("Progressing", "the operator has not accepted the last change")
end
for _, kind in ipairs({"Suspended", "Suspending"}) do
  if condition(kind).status == "True" or condition("RayCluster" .. kind, cluster).status == "True" then
    return result("Suspended", "is suspended")
  end
end
if status.observedGeneration == nil then
  return result("Progressing", "the operator has not seen the object")
end
if ready.status == "False" and (ready.reason == "InitializingTimeout" or ready.reason == "ZeroServeEndpoints") then
  return result("Degraded", text(ready.message, ready.reason))
end

local failed = {DEPLOY_FAILED = true, UNHEALTHY = true}
local failure = found(status.activeServiceStatus, failed) or found(status.pendingServiceStatus, failed)
if failure ~= nil then
  return result("Degraded", failure)
end
for _, kind in ipairs({"RollbackInProgress", "UpgradeInProgress"}) do
  if condition(kind).status == "True" then
    return result("Progressing", text(condition(kind).message, kind))
  end
end
if ready.status ~= "True" then
  return result("Progressing", text(ready.message, "is starting"))
end

-- Ready alone says that there was an endpoint. UPSCALING may be from zero: then nothing answers yet.
local moving = found(status.activeServiceStatus, {
  NOT_STARTED = true, DEPLOYING = true, DELETING = true, UPDATING = true, UPSCALING = true, DOWNSCALING = true,
})
if moving ~= nil then
  return result("Progressing", moving)
end
if next((status.activeServiceStatus or {}).applicationStatuses or {}) == nil then
  return result("Progressing", "the state of the applications is not known")
end
if (status.numServeEndpoints or 0) == 0 then
  return result("Progressing", "has no endpoint")
end
if (cluster.availableWorkerReplicas or 0) < (cluster.desiredWorkerReplicas or 0) then
  return result("Progressing", (cluster.availableWorkerReplicas or 0) .. " of " .. cluster.desiredWorkerReplicas .. " workers")
end
return result("Healthy", status.numServeEndpoints .. " endpoints")
