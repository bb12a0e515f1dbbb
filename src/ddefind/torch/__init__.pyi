from ._delay_ode import DelayODE as DelayODE
