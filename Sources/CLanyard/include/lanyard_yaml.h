/* libyaml needs no wrapper. */
#ifndef LANYARD_YAML_H
#define LANYARD_YAML_H

#include <yaml.h>

#endif
