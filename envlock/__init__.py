"""envlock: stacks that never share a torch, locked, sealed, verified before launch.

The flow, one folder a stage, in the order of the data:

    declare/      profiles/NAME.toml         -> Profile        what a person wants
    resolve/      Profile                    -> answers of uv  what the indexes have
    lock/         Profile + answers          -> Lock           what was decided, reviewed, committed
    environment/  Lock                       -> generation     built beside, sealed, switched to
    verify/       generation + host          -> checks         static, host, probe
    launch/       seal + attestation         -> exec           shim, run, guard, hooks
    container/    declaration                -> place          LXC, Proxmox, ssh
    review/       Lock x Lock, generations   -> judgement      diff, why, history, rollback, gc

`workflows` alone knows this order; `cli/` translates words and prints.
"""

__version__ = "0.1.0"
