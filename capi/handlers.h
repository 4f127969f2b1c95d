/* Signal handlers of the host that came after Go. */
#ifndef MP_HANDLERS_H
#define MP_HANDLERS_H

/* Makes them safe for Go's threads. Cheap: looks again only after a while. */
void mp_adopt_handlers(void);

#endif
