// Marks the folder. The modules in use, with their versions, are in lab/devstack/clients/locks.
module compat

go 1.24.0
