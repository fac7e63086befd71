"""The scripts that Redis runs: each sees and changes all windows of a request at once, by the clock of Redis.

A window is a list: the sum of its costs, then the entries "time cost" from the newest to the oldest. An entry that may
grow ends with the slice of the period that it stands for. Times are microseconds, which a double of Lua holds exactly.
"""

from __future__ import annotations

from typing import Final

_COMMON: Final = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function digits(number)
  return string.format('%.0f', number)
end

local function entry(key, place)
  local time, cost, slice = string.match(redis.call('LINDEX', key, place), '^(%d+) (%d+) ?(%d*)$')
  return tonumber(time), tonumber(cost), slice
end

local function set_sum(key, sum)
  if sum == 0 then redis.call('DEL', key) else redis.call('LSET', key, 0, digits(sum)) end
end
"""

# KEYS: the windows; ARGV: "charge" or "add", then limit, period and cost of each.
# Returns numbers: whether the costs were charged, the time, then of each window what is used, the microseconds until
# the cost fits (-1 for never), and those until the window is empty.
CHARGE: Final = (
    _COMMON
    + """
local conditional = ARGV[1] == 'charge'
local windows, admitted = {}, true

for i, key in ipairs(KEYS) do
  local limit, period, cost = tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1])
  local stored = tonumber(redis.call('LINDEX', key, 0) or 0)
  local used = stored
  while used > 0 do
    local oldest, oldest_cost = entry(key, -1)
    if oldest >= now - period then break end
    redis.call('RPOP', key)
    used = used - oldest_cost
  end
  if used < stored then set_sum(key, used) end
  if conditional and used + cost > limit then admitted = false end
  windows[i] = {limit = limit, period = period, cost = cost, used = used}
end

local function write(key, window)
  local text = digits(now) .. ' ' .. digits(window.cost)
  if not conditional then
    local slice = digits(math.floor(now / (window.period / 1000)))
    text = text .. ' ' .. slice
    if window.used > 0 then
      local _, cost, same = entry(key, 1)
      if same == slice then
        redis.call('LSET', key, 1, digits(now) .. ' ' .. digits(cost + window.cost) .. ' ' .. slice)
        return set_sum(key, window.used + window.cost)
      end
      redis.call('LPOP', key)
    end
  elseif window.used > 0 then
    redis.call('LPOP', key)
  end
  redis.call('LPUSH', key, text, digits(window.used + window.cost))
  redis.call('PEXPIRE', key, math.ceil(window.period / 1000) + 1000)
end

local function wait(key, window)
  local excess, place = window.used + window.cost - window.limit, 0
  if admitted or excess <= 0 then return 0 end
  if window.cost > window.limit then return -1 end
  while true do
    place = place - 1
    local time, cost = entry(key, place)
    excess = excess - cost
    if excess <= 0 then return time + window.period - now + 1 end
  end
end

local reply = {admitted and 1 or 0, digits(now)}
for i, key in ipairs(KEYS) do
  local window = windows[i]
  local waiting, reset = wait(key, window), 0
  if admitted and window.cost > 0 then
    write(key, window)
    window.used = window.used + window.cost
  end
  if window.used > 0 then reset = entry(key, 1) + window.period - now end
  reply[#reply + 1] = digits(window.used)
  reply[#reply + 1] = digits(waiting)
  reply[#reply + 1] = digits(reset)
end
return table.concat(reply, ' ')
"""
)

# KEYS: the windows; ARGV: the time of the charge, then the cost in each.
WITHDRAW: Final = (
    _COMMON
    + """
for i, key in ipairs(KEYS) do
  if redis.call('LREM', key, 1, ARGV[1] .. ' ' .. ARGV[i + 1]) == 1 then
    set_sum(key, tonumber(redis.call('LINDEX', key, 0)) - ARGV[i + 1])
  end
end
"""
)
