/* SwiftPM builds no target without a source file. */
#include "CYAML.h"
