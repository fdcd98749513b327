import FleetSimulation
import Glibc
import LanyardFoundations

exit(SimulationCommand(ProcessArguments.all).run())
