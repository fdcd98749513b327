import FleetSimulation
import Glibc

exit(SimulationCommand(CommandLine.arguments).run())
